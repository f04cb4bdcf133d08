// Map: where everything of a job is, as of its last commit, on its streets; or what is in a file. The address has the view.
import "./map.css";
import { type DragEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Problem } from "../shared/api";
import { clock as runTime, count, utc } from "../shared/format";
import { useFresh, useLatest } from "../shared/fresh";
import { numbers, short, useNumberParam } from "../shared/link";
import { ErrorNote } from "../shared/notes";
import { Player } from "../shared/player";
import { param, setParams, useParam } from "../shared/router";
import { colour, useTheme } from "../shared/theme";
import type { StreetValues } from "./basemap";
import { type Clock, type Frames, MapCanvas, STREET_PERIOD } from "./canvas";
import { type Choices, choices, drop, type Layer, positions, type Roads, roads, type RoadValues, segments, type Setting, setting } from "./data";
import { Histogram } from "./histogram";
import { plain, range, shade } from "./shades";
import { ChosenCard, FilterCard, LookCard, SavingCard } from "./side";
import { type Attribute, formatFilter, histogram, merge, parseFilter, passing, type Table, Tracks } from "./tracks";

const SPEEDS = [1, 10, 60, 300, 900, 3600];
/** Milliseconds between requests: of a job that commits, and of one that has been quiet for a while. */
const [SOON, LATER] = [1500, 6000];
/** What the address has about the table on display. */
const NOTHING = { layer: undefined, colour: undefined, filter: undefined, street: undefined, vehicle: undefined, area: undefined, time: undefined, view: undefined, crs: undefined, roads: undefined };
const NONE = "none";

interface Dropped {
  name: string;
  file: File;
  table: Table;
}

export function MapPage() {
  const { data: found, problem: unlisted } = useFresh<Choices>(choices, undefined);
  const [asked] = useParam("job");
  const [crs, setCrs] = useParam("crs");
  const [problem, setProblem] = useState<Problem>();
  const [dropped, setDropped] = useState<Dropped>();
  const [over, setOver] = useState(false);
  const job = found?.jobs.find((one) => one.name === asked) ?? (asked ? undefined : found?.jobs[0]);
  const layer = useLayer(job?.layers);
  const loaded = useTable(dropped ? undefined : job?.name, layer, crs ?? "", setProblem);
  const table = dropped?.table ?? loaded;
  const open = (file: File | undefined, system = "") => {
    if (!file) return;
    setProblem(undefined);
    drop(file, system).then((read) => {
      setParams({ ...NOTHING, crs: system || undefined });
      setDropped({ name: file.name, file, table: read });
    }, setProblem);
  };
  const system = (text: string) => (dropped ? open(dropped.file, text) : setCrs(text || undefined));
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    open(event.dataTransfer.files[0]);
  };
  const trouble = problem ?? unlisted;
  const unknown = asked && found && !job && !dropped;
  return (
    <div
      className="map-page page"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => event.currentTarget === event.target && setOver(false)}
      onDrop={onDrop}
    >
      <section className="bar" aria-label="What is shown">
        <h1 className="sr">Map</h1>
        <label>
          Job
          <select
            value={dropped ? "" : (job?.name ?? "")}
            onChange={(event) => {
              setDropped(undefined);
              setProblem(undefined);
              setParams({ ...NOTHING, job: event.target.value }, true);
            }}
          >
            {(dropped ?? !job) && <option value="">{dropped ? dropped.name : "none"}</option>}
            {found?.jobs.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </label>
        {!dropped && job && layer && (
          <label>
            Table
            <select value={layer.name} onChange={(event) => setParams({ ...NOTHING, layer: event.target.value }, true)}>
              {job.layers.map((one) => (
                <option key={`${one.kind}.${one.name}`}>{one.name}</option>
              ))}
            </select>
          </label>
        )}
        <RoadsChoice names={found?.roads ?? []} />
        {table && (table.world === "plane" || crs) && <SystemChoice crs={crs ?? ""} onCrs={system} />}
        <label className="button open">
          Open a file
          <input type="file" className="sr" accept=".gpx,.geojson,.json,.csv,.parquet" onChange={(event) => open(event.target.files?.[0])} />
        </label>
        {dropped && <button onClick={() => setDropped(undefined)}>Close {dropped.name}</button>}
        {table && <Extent table={table} live={!dropped} />}
      </section>
      {trouble && <ErrorNote problem={trouble} {...(problem ? { onClose: () => setProblem(undefined) } : {})} />}
      {unknown && <ErrorNote problem={{ message: `No job ${asked} has positions here.`, hint: "A job can be shown if one of its outputs has columns lon and lat, x and y, or trips." }} />}
      {found && !found.jobs.length && !dropped && (
        <p className="note">No job here has positions yet. A job can be shown if one of its outputs has columns lon and lat, x and y, or trips. Or drop a file on this page: GPX, GeoJSON, CSV or Parquet.</p>
      )}
      <Shown key={dropped ? `file ${dropped.name}` : `${job?.name} ${layer?.name} ${crs}`} name={dropped?.name ?? `${job?.name ?? "map"}-${layer?.name ?? ""}`} job={dropped ? undefined : job?.name} table={table} follows={!dropped && layer?.kind !== "trips"} found={found} onProblem={setProblem} />
      {over && <p className="dropping">Drop a GPX, GeoJSON, CSV or Parquet file to see it. It is read and forgotten.</p>}
    </div>
  );
}

/** The table in the address, or the first that is not of rejects. */
function useLayer(layers: Layer[] | undefined): Layer | undefined {
  const [asked] = useParam("layer");
  return useMemo(() => layers?.find((one) => one.name === asked) ?? layers?.find((one) => !one.name.endsWith("rejects")) ?? layers?.[0], [layers, asked]);
}

/** The positions of a job, and what it has committed since. */
function useTable(job: string | undefined, layer: Layer | undefined, crs: string, onProblem: (problem: Problem | undefined) => void): Table | undefined {
  const [known, setKnown] = useState<{ of: string; table: Table }>();
  const of = job && layer ? `${job} ${layer.name} ${crs}` : "";
  useEffect(() => {
    if (!job || !layer) return;
    let [stopped, quiet, timer] = [false, 0, 0];
    let table: Table | undefined;
    const load = async () => {
      if (!document.hidden) {
        try {
          const next = await positions(job, layer.name, crs, table && layer.kind !== "cuboid" ? table.batch : -1);
          if (stopped) return;
          const fresh = !table || (layer.kind === "cuboid" ? next.batch > table.batch : next.t.length > 0);
          quiet = fresh ? 0 : quiet + 1;
          if (fresh) {
            table = table && layer.kind !== "cuboid" ? merge(table, next) : next;
            setKnown({ of, table });
          }
          onProblem(undefined);
        } catch (problem) {
          if (stopped) return;
          onProblem(problem as Problem);
          quiet = 9;
        }
      }
      timer = window.setTimeout(() => void load(), quiet < 5 ? SOON : LATER);
    };
    void load();
    return () => {
      stopped = true;
      window.clearTimeout(timer);
    };
  }, [job, layer, crs, of, onProblem]);
  return known?.of === of ? known.table : undefined;
}

function RoadsChoice({ names }: { names: readonly string[] }) {
  const [chosen, choose] = useParam("roads");
  if (!names.length) return null;
  return (
    <label>
      Streets
      <select value={chosen ?? ""} onChange={(event) => choose(event.target.value || undefined)}>
        <option value="">those of the job</option>
        <option value={NONE}>none</option>
        {names.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

function SystemChoice({ crs, onCrs }: { crs: string; onCrs: (crs: string) => void }) {
  const [text, setText] = useState(crs);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onCrs(text.trim().toUpperCase());
      }}
    >
      <label title="The reference system of x and y, so that they can be put on streets">
        System
        <input value={text} placeholder="EPSG:25833" pattern="(?:[Ee][Pp][Ss][Gg]:[0-9]{4,6})?" size={11} onChange={(event) => setText(event.target.value)} />
      </label>
    </form>
  );
}

function Extent({ table, live }: { table: Table; live: boolean }) {
  const many = table.owners.length;
  return (
    <span className="dim">
      {table.isCut && "the newest "}
      {count(table.t.length)} positions{many > 0 && ` of ${count(many)} ${many === 1 ? "id" : "ids"}`}
      {live && table.batch >= 0 && `, as of batch ${count(table.batch)}`}
      {table.unplaced > 0 && `, ${count(table.unplaced)} without a place`}
    </span>
  );
}

interface ShownProps {
  name: string;
  job: string | undefined;
  table: Table | undefined;
  /** whether the newest positions are of interest, not the busiest time */
  follows: boolean;
  found: Choices | undefined;
  onProblem: (problem: Problem | undefined) => void;
}

const isInstant = (seconds: number): boolean => Math.abs(seconds) > 1e8;
const formatTime = (seconds: number): string => (isInstant(seconds) ? utc(seconds) : runTime(seconds));
const linkTime = (seconds: number): string => (isInstant(seconds) ? new Date(Math.round(seconds) * 1000).toISOString().slice(0, 19) : short(seconds));
const readTime = (text: string | undefined): number | undefined => numbers(text, 1)?.[0] ?? (text && Number.isFinite(Date.parse(`${text}Z`)) ? Date.parse(`${text}Z`) / 1000 : undefined);

function busiest(tracks: Tracks): number {
  const counts = histogram(tracks.table, undefined, tracks.begin, tracks.end, tracks.bins);
  const best = counts.indexOf(Math.max(...counts));
  return tracks.begin + ((best + 0.5) / tracks.bins) * (tracks.end - tracks.begin);
}

function Shown({ name, job, table, follows, found, onProblem }: ShownProps) {
  const tracks = useMemo(() => table && new Tracks(table), [table]);
  const [filterText, setFilter] = useParam("filter");
  const filter = useMemo(() => parseFilter(filterText), [filterText]);
  const pass = useMemo(() => table && passing(table, filter), [table, filter]);
  const [colourBy, setColour] = useParam("colour");
  const [as, setAs] = useParam("as");
  const [tail, setTail] = useNumberParam("tail");
  const [streetBy, setStreet] = useParam("street");
  const [chosen, choose] = useParam("vehicle");
  const [areaText, setAreaText] = useParam("area");
  const area = useMemo(() => numbers(areaText, 4), [areaText]);
  const setArea = useCallback((next: readonly number[] | undefined) => setAreaText(next?.map((one) => short(one, 9)).join(",")), [setAreaText]);
  const [selecting, setSelecting] = useState(false);
  const [frames, setFrames] = useState<Frames>();
  const theme = useTheme();
  const shades = useMemo(() => {
    const attribute = table?.attributes.find((one) => one.name === colourBy);
    return attribute ? shade(attribute, colour("dim")) : plain(colour("accent"));
  }, [table, colourBy, theme]);
  const { streets, setting: mine } = useBackground(job, table, found, onProblem);
  const street = useStreetValues(job, table, streetBy, mine);
  const streetChoices = useMemo(() => (streets ? listStreetValues(table, mine) : []), [streets, table, mine]);
  const time = useTime(tracks, follows);
  const onView = useCallback((view: readonly number[]) => setParams({ view: view.map((one) => short(one, 9)).join(",") }), []);
  const middle = () => {
    if (!tracks) return;
    const [x0, y0, x1, y1] = tracks.box;
    setArea([x0 + (x1 - x0) / 4, y0 + (y1 - y0) / 4, x1 - (x1 - x0) / 4, y1 - (y1 - y0) / 4]);
  };
  const zones = mine && (!table || mine.world === table.world) ? mine.zones : NO_ZONES;
  return (
    <div className="map-columns">
      <div className="map-left card">
        <MapCanvas
          subject={table ? "table" : "streets"}
          tracks={tracks}
          pass={pass}
          shades={shades}
          density={as === "density"}
          tail={tail ?? 0}
          roads={streets}
          zones={zones}
          tiles={found?.tiles ?? ""}
          street={streets && street}
          clock={time.clock}
          onTick={time.onTick}
          onFrames={setFrames}
          chosen={chosen}
          onChoose={choose}
          selecting={selecting}
          area={area}
          onArea={setArea}
          start={numbers(param("view"), 3)}
          onView={onView}
        />
        <Report frames={frames} total={tracks?.count ?? 0} />
        {tracks && table?.timed && <TimeBar tracks={tracks} pass={pass} time={time} follows={follows} />}
      </div>
      <aside>
        <LookCard
          table={table}
          colourBy={colourBy ?? ""}
          onColour={(next) => setColour(next || undefined)}
          shades={shades}
          density={as === "density"}
          onDensity={(on) => setAs(on ? "density" : undefined)}
          tail={tail ?? 0}
          onTail={(next) => setTail(next || undefined)}
          streets={streetChoices}
          street={streetBy ?? ""}
          streetRange={streets && street && ("of" in street ? street.range : range(street.values))}
          onStreet={(next) => setStreet(next || undefined)}
        />
        {streets && street && <p className="dim">{"of" in street ? "Streets have the values of the last commit, whatever the time on the map." : `Streets have the mean of the ${STREET_PERIOD / 60} minutes before.`}</p>}
        <FilterCard table={table} filter={filter} onFilter={(next) => setFilter(formatFilter(next))} />
        <ChosenCard tracks={tracks} chosen={chosen} onChoose={choose} time={time.shown} />
        <SavingCard name={name} tracks={tracks} pass={pass} chosen={chosen} area={area} onArea={setArea} selecting={selecting} onSelecting={setSelecting} onMiddle={middle} />
      </aside>
    </div>
  );
}

/** In the address, what follows is a value of segments. */
const SEGMENT = "segment ";
const SEGMENT_VALUES = ["toll", "speed", "average speed", "cars"];

/** By what streets can be coloured: tolls of a job's segments, means of positions that know their street. */
function listStreetValues(table: Table | undefined, mine: Setting | undefined): [string, string][] {
  const means = table?.attributes.some((one) => one.name === "edge") ? table.attributes.filter((one) => !one.texts.length && one.name !== "edge") : [];
  return [...(mine?.has_segments ? SEGMENT_VALUES.map((one): [string, string] => [SEGMENT + one, `${one} of the segment`]) : []), ...means.map((one): [string, string] => [one.name, `mean ${one.name}`])];
}

function useStreetValues(job: string | undefined, table: Table | undefined, by: string | undefined, mine: Setting | undefined): StreetValues | Attribute | undefined {
  const [tick, setTick] = useState(0);
  const name = by?.startsWith(SEGMENT) ? by.slice(SEGMENT.length) : undefined;
  useEffect(() => {
    if (name === undefined) return;
    const every = window.setInterval(() => !document.hidden && setTick((one) => one + 1), 3000);
    return () => window.clearInterval(every);
  }, [name]);
  const path = job && name !== undefined && mine?.has_segments ? segments(job) : undefined;
  const { data } = useFresh<RoadValues>(path, tick);
  const found = useLatest(data, path);
  // the same values again are no reason to draw
  const batch = found?.batch;
  return useMemo(() => {
    if (name === undefined) return table?.attributes.find((one) => one.name === by && one.name !== "edge" && !one.texts.length);
    const values = found?.values[name];
    if (!found || !values) return undefined;
    const of = new Map(found.edges.flatMap((edge, k): [number, number][] => (typeof values[k] === "number" ? [[edge, values[k]]] : [])));
    return { of, range: range([...of.values()]) };
  }, [table, by, name, batch, found?.edges.length]);
}

const NO_ZONES: Setting["zones"] = [];

/** The streets and zones of a job, or those in the address. */
function useBackground(job: string | undefined, table: Table | undefined, found: Choices | undefined, onProblem: (problem: Problem) => void) {
  const { data: mine } = useFresh<Setting>(job && setting(job), undefined);
  const [asked] = useParam("roads");
  const wanted = asked === NONE ? "" : (asked ?? (job && !mine ? "" : (mine?.roads || (found?.roads[0] ?? ""))));
  const [loaded, setLoaded] = useState<{ name: string; roads: Roads }>();
  useEffect(() => {
    if (!wanted) return;
    let stopped = false;
    roads(wanted).then((read) => !stopped && setLoaded({ name: wanted, roads: read }), onProblem);
    return () => {
      stopped = true;
    };
  }, [wanted, onProblem]);
  const there = loaded?.name === wanted ? loaded.roads : undefined;
  return { setting: mine, streets: there && (!table || there.world === table.world) ? there : undefined };
}

/** The time on the map: that of the address, or the newest while a job is followed. */
function useTime(tracks: Tracks | undefined, follows: boolean) {
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

function TimeBar({ tracks, pass, time, follows }: { tracks: Tracks; pass: Uint8Array | undefined; time: ReturnType<typeof useTime>; follows: boolean }) {
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

/** What is on the map, and whether all of it. */
function Report({ frames, total }: { frames: Frames | undefined; total: number }) {
  if (!frames || !total) return null;
  return (
    <p className="report" data-frames={frames.perSecond.toFixed(1)} data-step={frames.step}>
      {count(frames.there)} of {count(total)} now
      {frames.step > 1 && <strong>, one in {count(frames.step)} drawn to keep moving</strong>}
      {frames.perSecond > 0 && `, ${Math.round(frames.perSecond)} frames/s`}
    </p>
  );
}
