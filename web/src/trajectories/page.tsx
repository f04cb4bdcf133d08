// Trajectories: play recorded journeys on a map of their streets, and query who was where and when.
import "./trajectories.css";
import { type FormEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Problem } from "../shared/api";
import { Figure } from "../shared/figure";
import { count, utc as instant } from "../shared/format";
import { useFresh } from "../shared/fresh";
import { formatPoints, numbers, parsePoints, short, useNumberParam } from "../shared/link";
import { Empty, ErrorNote } from "../shared/notes";
import { Player } from "../shared/player";
import { param, setParams, useParam } from "../shared/router";
import { Rows, text } from "../shared/rows";
import { type Answer, answer, type DataSet, dataSet, dataSets, Film, forInput, fromInput, type History, history, kilometres, lasting, type Line, type Stay, type Streets, streets, who } from "./data";
import { type Clock, JourneyMap } from "./map";

export function TrajectoriesPage() {
  const found = useFresh<{ data_sets: string[] }>(dataSets, undefined);
  const names = found.data?.data_sets;
  const [picked] = useParam("data");
  const name = picked ?? names?.[0] ?? "";
  const opened = useFresh<DataSet>(name ? dataSet(name) : undefined, undefined);
  const [asked, setAsked] = useState<Problem>();
  const set = opened.data;
  const problem = found.problem ?? opened.problem ?? asked;
  if (names?.length === 0) {
    return (
      <div className="centre">
        <Empty title="No journeys yet">
          <p>
            Generate some with <code>slipstream berlinmod generate --scale 0.005 --out berlin</code>
          </p>
          <p>
            or from a run with <code>slipstream archive RUN --out journeys</code>, in the workspace.
          </p>
        </Empty>
      </div>
    );
  }
  return (
    <div className="trajectories page">
      <section className="bar" aria-label="Data set">
        <label>
          Journeys
          <select value={name} onChange={(event) => (setParams({ ...NOTHING, data: event.target.value }, true), setAsked(undefined))}>
            {names?.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        {set && (
          <span className="dim">
            {count(set.vehicles.length)} vehicles, {count(set.trips)} trips, {count(set.units)} units of movement, {instant(set.begin).slice(0, 14)} to {instant(set.end).slice(0, 14)}
          </span>
        )}
      </section>
      {problem && <ErrorNote problem={problem} {...(asked ? { onClose: () => setAsked(undefined) } : {})} />}
      {set ? <Journeys key={set.name} set={set} onProblem={setAsked} /> : !problem && <p className="note">Loading journeys…</p>}
    </div>
  );
}

/** What the address has about the data set on display. */
const NOTHING = { time: undefined, vehicle: undefined, view: undefined, region: undefined, query: undefined };

const SPEEDS = [1, 10, 60, 300, 900, 3600];

function Journeys({ set, onProblem }: { set: DataSet; onProblem: (problem: Problem | undefined) => void }) {
  const clock = useRef<Clock>({ time: linkedTime(set), speed: 60, playing: false });
  const [time, setTime] = useState(clock.current.time);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(60);
  const [lines, setLines] = useState<Streets>();
  const [licence, setLicence] = useParam("vehicle");
  const numberOf = useMemo(() => new Map(set.vehicles.map((vehicle, i) => [vehicle.licence, i])), [set]);
  const chosen = licence === undefined ? undefined : numberOf.get(licence);
  const setChosen = useCallback((vehicle: number | undefined) => setLicence(vehicle === undefined ? undefined : set.vehicles[vehicle]?.licence), [set, setLicence]);
  const { data: past, problem: unknown } = useFresh<History>(chosen === undefined ? undefined : history(set.name, chosen), undefined);
  const [drawing, setDrawing] = useState(false);
  const [outline, setOutline] = useParam("region");
  const region = useMemo<Line>(() => parsePoints(outline), [outline]);
  const setRegion = useCallback((fresh: Line) => setOutline(formatPoints(fresh)), [setOutline]);
  const onView = useCallback((view: readonly number[]) => setParams({ view: view.map((one) => short(one, 8)).join(",") }), []);
  const [stays, setStays] = useState<Stay[]>();
  const [shown, setShown] = useState<Answer>();
  const film = useMemo(() => new Film(set.name, onProblem), [set.name, onProblem]);
  useEffect(() => {
    streets(set.name).then(setLines, onProblem);
  }, [set.name, onProblem]);
  // the slider follows ten times a second; the map every frame
  const onTime = useCallback((next: number) => {
    clock.current.time = next;
  }, []);
  useEffect(() => {
    const every = window.setInterval(() => {
      setTime(clock.current.time);
      if (clock.current.time >= set.end && clock.current.playing) play(false);
    }, 100);
    return () => window.clearInterval(every);
  }, [set.end]);
  // the address has the time at which the map stands; while it plays, it is that of the last stop
  useEffect(() => {
    if (playing) return;
    const soon = window.setTimeout(() => setParams({ time: new Date(Math.round(time) * 1000).toISOString().slice(0, 19) }), 300);
    return () => window.clearTimeout(soon);
  }, [playing, time]);
  const play = (on: boolean) => {
    if (on && clock.current.time >= set.end) clock.current.time = set.begin;
    clock.current.playing = on;
    setPlaying(on);
  };
  const jump = (to: number) => {
    clock.current.time = Math.max(set.begin, Math.min(set.end, to));
    setTime(clock.current.time);
  };
  const marked = useMemo(() => new Set([...(stays ?? []).map((stay) => stay.vehicle), ...(shown?.licences ?? []).flatMap((one) => numberOf.get(one) ?? [])]), [stays, shown, numberOf]);
  return (
    <div className="journey-columns">
      <div className="journey-left card">
        <JourneyMap
          set={set}
          streets={lines}
          film={film}
          clock={clock}
          onTime={onTime}
          chosen={chosen}
          onChoose={setChosen}
          path={past?.lines ?? []}
          drawing={drawing}
          start={numbers(param("view"), 3)}
          onView={onView}
          region={region}
          onRegion={(fresh) => {
            setRegion(fresh);
            setStays(undefined);
          }}
          marked={marked}
          points={shown?.points ?? []}
          lines={shown?.lines ?? []}
        />
        <Player
          playing={playing}
          verb="Play"
          speed={speed}
          speeds={SPEEDS}
          line="Time"
          min={set.begin}
          max={set.end}
          value={time}
          valueText={instant(time)}
          onPlay={() => play(!playing)}
          onSpeed={(next) => {
            clock.current.speed = next;
            setSpeed(next);
          }}
          onSeek={jump}
        >
          <output>{instant(time)}</output>
        </Player>
      </div>
      <aside>
        <Find set={set} onChoose={setChosen} />
        {unknown && <ErrorNote problem={unknown} />}
        {past && <About past={past} time={time} onJump={jump} onClose={() => setChosen(undefined)} />}
        <Who set={set} time={time} region={region} drawing={drawing} stays={stays} onDraw={setDrawing} onRegion={setRegion} onStays={setStays} onChoose={setChosen} onJump={jump} onProblem={onProblem} />
        {(set.has_streets || set.answers.length > 0) && <Answers set={set} shown={shown} onShow={setShown} onChoose={(licence) => setChosen(numberOf.get(licence))} onProblem={onProblem} />}
      </aside>
    </div>
  );
}

/** The time in the address, in UTC; without one, a morning. */
function linkedTime(set: DataSet): number {
  const linked = Date.parse(`${param("time") ?? ""}Z`) / 1000;
  return linked >= set.begin && linked <= set.end ? linked : firstMorning(set);
}

/** Eight in the morning of the second day, when there is traffic. */
function firstMorning(set: DataSet): number {
  const morning = (Math.floor(set.begin / 86400) + 1) * 86400 + 8 * 3600;
  return morning < set.end ? morning : set.begin;
}

function Find({ set, onChoose }: { set: DataSet; onChoose: (vehicle: number) => void }) {
  const [missing, setMissing] = useState("");
  const find = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const wanted = String(new FormData(event.currentTarget).get("licence") ?? "").trim().toLowerCase();
    const found = set.vehicles.findIndex((vehicle) => vehicle.licence.toLowerCase() === wanted);
    setMissing(found < 0 ? wanted : "");
    if (found >= 0) onChoose(found);
  };
  return (
    <form className="find" onSubmit={find}>
      <input name="licence" aria-label="Licence" placeholder="Find a vehicle by licence" list="licences" />
      <datalist id="licences">
        {set.vehicles.slice(0, 3000).map((vehicle) => (
          <option key={vehicle.licence} value={vehicle.licence} />
        ))}
      </datalist>
      <button>Find</button>
      {missing && (
        <p role="alert" className="dim">
          No vehicle has the licence {missing}.
        </p>
      )}
    </form>
  );
}

function About({ past, time, onJump, onClose }: { past: History; time: number; onJump: (time: number) => void; onClose: () => void }) {
  const now = past.drives.find((drive) => drive.begin <= time && time <= drive.end);
  const driving = past.drives.reduce((sum, drive) => sum + drive.end - drive.begin, 0);
  return (
    <section className="card about" aria-label={`Vehicle ${past.vehicle.licence}`}>
      <header>
        <h3>{past.vehicle.licence}</h3>
        <span className="dim">{[past.vehicle.model, past.vehicle.type].filter(Boolean).join(", ")}</span>
        <span className="grow" />
        <button className="plain" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      <dl>
        <Figure name="drives" value={count(past.drives.length)} />
        <Figure name="distance" value={kilometres(past.metres)} />
        <Figure name="driving" value={lasting(driving)} />
        <Figure name="fastest" value={`${Math.round(3.6 * Math.max(0, ...past.drives.map((drive) => drive.fastest)))} km/h`} />
      </dl>
      <p>{now ? `Driving: ${kilometres(now.metres)} in ${lasting(now.end - now.begin)}, until ${instant(now.end).slice(15)}.` : "Not driving at this time."}</p>
      <ul className="list">
        {past.drives.slice(0, 400).map((drive) => (
          <li key={drive.begin}>
            <button
              className={`plain ${drive === now ? "now" : ""}`}
              title={`${instant(drive.begin)}, ${lasting(drive.end - drive.begin)}`}
              onClick={() => onJump(drive.begin)}
            >
              <span className="mono">{withoutYear(instant(drive.begin))}</span>
              <span>{kilometres(drive.metres)}</span>
              <span className="dim">{Math.round((drive.end - drive.begin) / 60)} min</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** "Mon 2007-05-28 08:38:10" as "Mon 05-28 08:38". */
const withoutYear = (text: string): string => text.slice(0, 4) + text.slice(9, 20);

interface WhoProps {
  set: DataSet;
  time: number;
  region: Line;
  drawing: boolean;
  stays: Stay[] | undefined;
  onDraw: (on: boolean) => void;
  onRegion: (region: Line) => void;
  onStays: (stays: Stay[] | undefined) => void;
  onChoose: (vehicle: number) => void;
  onJump: (time: number) => void;
  onProblem: (problem: Problem) => void;
}

function Who({ set, time, region, drawing, stays, onDraw, onRegion, onStays, onChoose, onJump, onProblem }: WhoProps) {
  const [begin, setBegin] = useState(() => time);
  const [end, setEnd] = useState(() => Math.min(set.end, time + 3600));
  const [asking, setAsking] = useState(false);
  const ask = () => {
    setAsking(true);
    who(set.name, region, begin, end)
      .then((found) => (onStays(found.stays), onDraw(false)), onProblem)
      .finally(() => setAsking(false));
  };
  const missing = region.length < 3 ? "Draw a region first, or use the middle square." : end < begin ? "The period ends before it begins." : "";
  const square = () => {
    // without a mouse: a square of two kilometres in the middle, ready to query
    const [x, y] = [(set.box[0] + set.box[2]) / 2, (set.box[1] + set.box[3]) / 2];
    onRegion([[x - 1000, y - 1000], [x + 1000, y - 1000], [x + 1000, y + 1000], [x - 1000, y + 1000]]);
  };
  return (
    <section className="card who" aria-label="Who was there">
      <header>
        <h3>Who was there?</h3>
        <span className="grow" />
        {region.length > 0 && (
          <button
            className="plain"
            onClick={() => {
              onRegion([]);
              onStays(undefined);
            }}
          >
            Clear
          </button>
        )}
      </header>
      <div className="buttons">
        <button aria-pressed={drawing} className={drawing ? "primary" : ""} onClick={() => onDraw(!drawing)}>
          {drawing ? "Draw on the map" : "Draw a region"}
        </button>
        <button onClick={square}>Middle square</button>
      </div>
      <label>
        From
        <input type="datetime-local" step={1} value={forInput(begin)} min={forInput(set.begin)} max={forInput(set.end)} onChange={(event) => Number.isFinite(fromInput(event.target.value)) && setBegin(fromInput(event.target.value))} />
      </label>
      <label>
        To
        <input type="datetime-local" step={1} value={forInput(end)} min={forInput(set.begin)} max={forInput(set.end)} onChange={(event) => Number.isFinite(fromInput(event.target.value)) && setEnd(fromInput(event.target.value))} />
      </label>
      <button className="primary" disabled={missing !== "" || asking} aria-describedby="missing" onClick={ask}>
        {asking ? "Searching…" : "Search"}
      </button>
      {missing && (
        <p id="missing" className="dim">
          {missing}
        </p>
      )}
      {stays && (
        <p role="status">
          {stays.length === 0 ? "No vehicles were there." : `${count(stays.length)} ${stays.length === 1 ? "vehicle was" : "vehicles were"} there.`}
        </p>
      )}
      <ul className="list">
        {stays?.slice(0, 300).map((stay) => (
          <li key={stay.vehicle}>
            <button
              className="plain"
              onClick={() => {
                onChoose(stay.vehicle);
                onJump(stay.first);
              }}
            >
              <strong>{set.vehicles[stay.vehicle]?.licence}</strong>
              <span>{lasting(stay.seconds)}</span>
              <span className="dim mono">{instant(stay.first).slice(15)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Answers({ set, shown, onShow, onChoose, onProblem }: { set: DataSet; shown: Answer | undefined; onShow: (answer: Answer | undefined) => void; onChoose: (licence: string) => void; onProblem: (problem: Problem | undefined) => void }) {
  const [chosen, setChosen] = useNumberParam("query");
  const query = chosen ?? 0;
  useEffect(() => {
    if (query) show(query);
    // once, for the address
  }, [set]);
  const show = (number: number) => {
    setChosen(number || undefined);
    const found = set.answers.find((one) => one.query === number);
    if (!found) return onShow(undefined);
    answer(set.name, number, "tba" in found.rows ? "tba" : "oba").then(onShow, onProblem);
  };
  return (
    <section className="card answers" aria-label="The 17 queries">
      <header>
        <h3>The 17 queries</h3>
      </header>
      {set.answers.length === 0 ? (
        <p className="dim">
          No results yet. Run the queries: <code>slipstream berlinmod run {set.name}</code>
        </p>
      ) : (
        <select aria-label="Query" value={query} onChange={(event) => show(Number(event.target.value))}>
          <option value={0}>choose one</option>
          {set.answers.map((one) => (
            <option key={one.query} value={one.query}>
              Q{one.query}: {one.title.slice(0, 70)} ({count(Object.values(one.rows)[0] ?? 0)})
            </option>
          ))}
        </select>
      )}
      {shown && (
        <>
          <p>{shown.title}</p>
          <p className="dim">{count(shown.total)} rows{shown.total > shown.rows.length ? `, the first ${count(shown.rows.length)}` : ""}</p>
          <div className="rows" tabIndex={0} aria-label="Rows of the result">
            <Rows
              columns={shown.columns}
              rows={shown.rows.map((row) =>
                row.map((value, k) =>
                  shown.columns[k]?.startsWith("Licence") ? (
                    <button className="plain" onClick={() => onChoose(String(value))}>
                      {text(value)}
                    </button>
                  ) : (
                    text(value)
                  ),
                ),
              )}
            />
          </div>
        </>
      )}
    </section>
  );
}
