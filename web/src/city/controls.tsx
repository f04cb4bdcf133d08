// Start, pause and stop; and the timeline for looking back.
import { useEffect, useState } from "react";
import { get, post, type Problem } from "../shared/api";
import { clock, count } from "../shared/format";
import { Player } from "../shared/player";
import { StatusLight } from "../shared/status";
import type { Choices, State } from "./types";

const SPEEDS = [1, 2, 5, 10, 30, 60, 0];
const speedName = (speed: number): string => (speed === 0 ? "full speed" : `${speed}×`);

interface Props {
  state: State;
  connected: boolean;
  onProblem: (problem: Problem) => void;
}

export function Controls({ state, connected, onProblem }: Props) {
  const [choices, setChoices] = useState<Choices>();
  const [run, setRun] = useState("");
  const [speed, setSpeed] = useState(10);
  const busy = state.status === "starting" || state.status === "running" || state.status === "stopping";
  useEffect(() => {
    if (!busy && connected) get<Choices>("/api/city/choices").then(setChoices, onProblem);
  }, [busy, connected, onProblem]);
  useEffect(() => {
    const known = (name: string) => choices?.runs.some((entry) => entry.name === name);
    if (choices && !known(run)) setRun(known(state.run) ? state.run : (choices.runs[0]?.name ?? ""));
  }, [choices, run, state.run]);
  useEffect(() => {
    if (state.run) setRun(state.run);
  }, [state.result, state.run]);
  const act = (what: string, body: unknown = {}) => post(`/api/city/${what}`, body).catch(onProblem);
  const entry = choices?.runs.find((one) => one.name === run);
  const resumable = state.status === "paused" || (state.status === "stopped" && state.run !== "");
  return (
    <section className="bar" aria-label="Run control">
      <label>
        Run
        <select value={run} onChange={(event) => setRun(event.target.value)} disabled={busy}>
          {choices?.runs.length === 0 && <option value="">no runs yet</option>}
          {choices?.runs.map((one) => (
            <option key={one.name} value={one.name}>
              {one.name}
            </option>
          ))}
        </select>
      </label>
      <label>
        Speed
        <select value={speed} onChange={(event) => setSpeed(Number(event.target.value))} disabled={busy}>
          {SPEEDS.map((one) => (
            <option key={one} value={one}>
              {speedName(one)}
            </option>
          ))}
        </select>
      </label>
      <div className="buttons">
        {!busy && (
          <button className={resumable ? "" : "primary"} disabled={!run} onClick={() => void act("start", { run, speed })}>
            Start
          </button>
        )}
        {!busy && resumable && (
          <button className="primary" onClick={() => void act("resume", { speed })}>
            Resume
          </button>
        )}
        {busy && (
          <button disabled={state.status !== "running"} onClick={() => void act("pause")}>
            Pause
          </button>
        )}
        {busy && (
          <button disabled={state.status === "stopping"} onClick={() => void act("stop")}>
            Stop
          </button>
        )}
      </div>
      {!busy && (choices?.results.length ?? 0) > 0 && (
        <label>
          Open
          <select value={state.result} onChange={(event) => void act("open", { result: event.target.value })}>
            <option value="" disabled>
              a result
            </option>
            {choices?.results.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      )}
      <span className="grow">
        {!busy && (choices?.broken.length ?? 0) > 0 && (
          <span className="broken" title={choices?.broken.join("\n")}>
            {choices?.broken.length === 1 ? "1 run cannot be used" : `${choices?.broken.length} runs cannot be used`}
          </span>
        )}
        {!busy && entry && (
          <span className="dim">
            {entry.expressways} {entry.expressways === 1 ? "expressway" : "expressways"}, {clock(entry.seconds)},{" "}
            {count(entry.tuples)} tuples
          </span>
        )}
        {busy && (
          <span className="dim">
            {state.run} at {speedName(state.speed)}
          </span>
        )}
      </span>
      <StatusLight status={connected ? state.status : "lost"} />
    </section>
  );
}

const PLAYS = [1, 2, 5, 10, 30, 60];

/** The timeline: drag it to look back, play from there, return to the latest second. */
export function Timeline({ state, onProblem }: { state: State; onProblem: (problem: Problem) => void }) {
  const [dragged, setDragged] = useState<number>();
  const newest = Math.max(0, state.committed);
  const second = dragged ?? Math.max(0, state.shown);
  const { view } = state;
  const look = (wanted: Partial<State["view"]>) =>
    post("/api/city/look", { ...view, ...wanted }).then(() => setDragged(undefined), onProblem);
  const play = () => {
    if (view.playing && !view.follow) return void look({ follow: false, playing: false, second: state.shown });
    void look({ follow: false, playing: true, second: state.shown >= newest ? 0 : state.shown });
  };
  const playing = view.playing && !view.follow;
  return (
    <Player
      playing={playing}
      verb="Replay"
      speed={view.speed}
      speeds={PLAYS}
      line="Second of the run"
      min={0}
      max={Math.max(1, state.seconds - 1)}
      value={second}
      valueText={clock(second)}
      filled={(newest + 1) / Math.max(1, state.seconds)}
      disabled={newest <= 0}
      onPlay={play}
      onSpeed={(speed) => void look({ speed, second: state.shown })}
      onSeek={(wanted) => {
        const to = Math.min(newest, wanted);
        setDragged(to);
        void look({ follow: false, second: to, playing: false });
      }}
    >
      <span className="mono">{clock(second)}</span>
      <span className="dim mono">/ {clock(state.seconds)}</span>
      <button className={view.follow ? "live on" : "live"} disabled={view.follow} onClick={() => void look({ follow: true, playing: false })}>
        Latest
      </button>
    </Player>
  );
}
