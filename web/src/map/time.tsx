// The time on the map: it plays, stands, or follows the newest position; the address has it while it stands.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { clock as runTime, utc } from "../shared/format";
import { numbers, short } from "../shared/link";
import { Player } from "../shared/player";
import { param, setParams, useParam } from "../shared/router";
import type { Clock } from "./canvas";
import { Histogram } from "./histogram";
import { histogram, type Tracks } from "./tracks";

const SPEEDS = [1, 10, 60, 300, 900, 3600];

const isInstant = (seconds: number): boolean => Math.abs(seconds) > 1e8;
const formatTime = (seconds: number): string => (isInstant(seconds) ? utc(seconds) : runTime(seconds));
const linkTime = (seconds: number): string => (isInstant(seconds) ? new Date(Math.round(seconds) * 1000).toISOString().slice(0, 19) : short(seconds));
const readTime = (text: string | undefined): number | undefined => numbers(text, 1)?.[0] ?? (text && Number.isFinite(Date.parse(`${text}Z`)) ? Date.parse(`${text}Z`) / 1000 : undefined);

function busiest(tracks: Tracks): number {
  const counts = histogram(tracks.table, undefined, tracks.begin, tracks.end, tracks.bins);
  const best = counts.indexOf(Math.max(...counts));
  return tracks.begin + ((best + 0.5) / tracks.bins) * (tracks.end - tracks.begin);
}

/** The time on the map: that of the address, or the newest while a job is followed. */
export function useTime(tracks: Tracks | undefined, follows: boolean) {
  const [linked] = useParam("time");
  const clock = useRef<Clock>({ time: NaN, speed: 60, playing: false });
  const [following, setFollowing] = useState(follows && readTime(linked) === undefined);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(60);
  const [shown, setShown] = useState(0);
  const now = useRef({ tracks, following });
  now.current = { tracks, following };
  useEffect(() => {
    if (!tracks || !Number.isNaN(clock.current.time)) return;
    const asked = readTime(param("time"));
    clock.current.time = asked !== undefined && asked >= tracks.begin && asked <= tracks.end + tracks.hold ? asked : follows ? tracks.end : busiest(tracks);
    setShown(clock.current.time);
  }, [tracks, follows]);
  const onTick = useCallback((seconds: number) => {
    const { tracks: all, following: newest } = now.current;
    const c = clock.current;
    if (!all) return;
    if (c.playing) c.time = Math.min(all.end, c.time + seconds * c.speed);
    else if (newest && c.time !== all.end) {
      // towards the newest position within a second, so that nothing jumps
      const next = c.time + (all.end - c.time) * Math.min(1, 2 * seconds);
      c.time = Math.abs(all.end - next) < 0.05 ? all.end : next;
    }
  }, []);
  const play = useCallback((on: boolean) => {
    const all = now.current.tracks;
    if (on && all && clock.current.time >= all.end) clock.current.time = all.begin;
    clock.current.playing = on;
    setPlaying(on);
    if (on) setFollowing(false);
  }, []);
  useEffect(() => {
    const every = window.setInterval(() => {
      if (!Number.isNaN(clock.current.time)) setShown(clock.current.time);
      if (clock.current.playing && now.current.tracks && clock.current.time >= now.current.tracks.end) play(false);
    }, 100);
    return () => window.clearInterval(every);
  }, [play]);
  // the address has the time at which the map stands
  useEffect(() => {
    if (playing || !tracks?.table.timed || Number.isNaN(clock.current.time)) return;
    const soon = window.setTimeout(() => setParams({ time: following ? undefined : linkTime(shown) }), 300);
    return () => window.clearTimeout(soon);
  }, [playing, following, shown, tracks]);
  const jump = (to: number) => {
    if (!tracks) return;
    setFollowing(false);
    clock.current.time = Math.max(tracks.begin, Math.min(tracks.end, to));
    setShown(clock.current.time);
  };
  const changeSpeed = (next: number) => {
    clock.current.speed = next;
    setSpeed(next);
  };
  const follow = () => {
    play(false);
    setFollowing(true);
  };
  return { clock, onTick, playing, play, speed, changeSpeed, shown, jump, following, follow };
}

export function TimeBar({ tracks, pass, time, follows }: { tracks: Tracks; pass: Uint8Array | undefined; time: ReturnType<typeof useTime>; follows: boolean }) {
  const counts = useMemo(() => histogram(tracks.table, pass, tracks.begin, tracks.end, tracks.bins), [tracks, pass]);
  const text = formatTime(time.shown);
  return (
    <Player
      playing={time.playing}
      verb="Play"
      speed={time.speed}
      speeds={SPEEDS}
      line="Time"
      min={tracks.begin}
      max={Math.max(tracks.end, tracks.begin + 1)}
      value={time.shown}
      valueText={text}
      onPlay={() => time.play(!time.playing)}
      onSpeed={time.changeSpeed}
      onSeek={time.jump}
      above={<Histogram counts={counts} />}
    >
      <output>{text}</output>
      {follows && (
        <button aria-pressed={time.following} className={time.following ? "primary" : ""} onClick={time.follow}>
          Newest
        </button>
      )}
    </Player>
  );
}
