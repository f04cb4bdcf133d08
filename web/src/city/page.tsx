// The live city.
import "./city.css";
import { useCallback, useMemo, useState } from "react";
import type { Problem } from "../shared/api";
import { clock, count } from "../shared/format";
import { numbers, useNumberParam } from "../shared/link";
import { Empty, ErrorNote } from "../shared/notes";
import { useParam } from "../shared/router";
import { gradient } from "../shared/scales";
import { useTheme } from "../shared/theme";
import { Charts } from "./charts";
import { Controls, Timeline } from "./controls";
import { SegmentCard, VehicleCard, VehicleSearch } from "./details";
import { type Measure, MEASURES, shade } from "./draw";
import { Figures, LIMIT, limitsApply, Responses } from "./health";
import { useLinkedState } from "./linked";
import { useLive } from "./live";
import { CityMap } from "./map";
import { type Grid, HEADING, type Place, type State } from "./types";

export function CityPage() {
  const live = useLive();
  const [colouring, setMeasure] = useParam("colour");
  const measure = colouring !== undefined && colouring in MEASURES ? (colouring as Measure) : "speed";
  const [zoomed, setZoomed] = useNumberParam("expressway");
  const [chosen, setChosen] = usePlace();
  const [vid, setVid] = useNumberParam("vehicle");
  const [problem, setProblem] = useState<Problem>();
  const onProblem = useCallback((one: Problem) => setProblem(one), []);
  const { state } = live;
  useLinkedState(state, onProblem);
  if (!state) return <p className="note">{live.connected ? "Loading…" : "The console is not responding. Retrying…"}</p>;
  return (
    <div className="city page">
      <Controls state={state} connected={live.connected} onProblem={onProblem} />
      {problem && <ErrorNote problem={problem} onClose={() => setProblem(undefined)} />}
      {state.status === "failed" && <ErrorNote problem={{ message: "The engine failed.", hint: state.error }} />}
      <div className="columns">
        <div className="left">
          <section className="card city-map" aria-label="Map of the city">
            <header>
              <div className="segmented" role="radiogroup" aria-label="Colour by">
                {(Object.keys(MEASURES) as Measure[]).map((one) => (
                  <button key={one} role="radio" aria-checked={one === measure} onClick={() => setMeasure(one)}>
                    {MEASURES[one].title}
                  </button>
                ))}
              </div>
              <Legend measure={measure} grid={live.grid.current} />
              <span className="grow" />
              <VehicleSearch onSearch={setVid} />
              {zoomed !== undefined ? (
                <button onClick={() => setZoomed(undefined)}>All expressways</button>
              ) : (
                <span className="dim hint">double-click or double-tap an expressway to zoom in</span>
              )}
            </header>
            <CityMap live={live} measure={measure} zoomed={zoomed} chosen={chosen} onChoose={setChosen} onZoom={setZoomed} />
            {state.shown < 0 && <Waiting state={state} />}
            <Timeline state={state} onProblem={onProblem} />
          </section>
          <Charts beats={live.beats} limit={limitsApply(state) ? LIMIT : undefined} />
        </div>
        <aside>
          <div className="wall-clock mono" aria-label="Time of the run">
            {clock(Math.max(0, state.shown))}
          </div>
          <Figures state={state} />
          {vid !== undefined && state.shown >= 0 && (
            <VehicleCard
              vid={vid}
              second={state.shown}
              onClose={() => setVid(undefined)}
              onShow={(place) => {
                setChosen({ xway: place.xway, dir: place.dir, seg: place.seg });
                setZoomed(place.xway);
              }}
            />
          )}
          {chosen && <SegmentCard place={chosen} second={state.shown} onClose={() => setChosen(undefined)} />}
          <Responses state={state} />
          <Accidents state={state} onChoose={setChosen} />
        </aside>
      </div>
    </div>
  );
}

/** The chosen segment, in the address as `expressway,direction,segment`. */
function usePlace(): [Place | undefined, (place: Place | undefined) => void] {
  const [text, set] = useParam("segment");
  const place = useMemo((): Place | undefined => {
    const [xway, dir, seg] = numbers(text, 3) ?? [];
    return xway !== undefined && (dir === 0 || dir === 1) && seg !== undefined ? { xway, dir, seg } : undefined;
  }, [text]);
  return [place, useCallback((next: Place | undefined) => set(next && `${next.xway},${next.dir},${next.seg}`), [set])];
}

function Legend({ measure, grid }: { measure: Measure; grid: Grid | undefined }) {
  const info = MEASURES[measure];
  const dark = useTheme() === "dark";
  const ends = grid ? info.ends(grid) : [0, 0];
  return (
    <span className="scale">
      <span className="mono">{grid ? count(ends[0] ?? 0) : ""}</span>
      <i style={{ background: gradient(info.scale, (share) => shade(share, dark)) }} />
      <span className="mono">{grid ? count(ends[1] ?? 0) : ""}</span> {info.unit}
      <svg viewBox="0 0 12 12" aria-hidden="true">
        <path d="M6 0 12 6 6 12 0 6Z" />
      </svg>
      accident
    </span>
  );
}

function Waiting({ state }: { state: State }) {
  if (state.status === "starting") {
    return (
      <div className="over">
        <Empty title="Starting Spark">
          <p>The first results appear once the engine has warmed up.</p>
        </Empty>
      </div>
    );
  }
  return (
    <div className="over">
      <Empty title="Nothing to display yet">
        <p>Choose a run above and press Start, or open a result.</p>
        <p>
          No runs yet? Create one: <code>slipstream simulate --expressways 1 --minutes 5 --out runs/first</code>
        </p>
      </Empty>
    </div>
  );
}

function Accidents({ state, onChoose }: { state: State; onChoose: (place: Place) => void }) {
  return (
    <section className="card accidents">
      <header>
        <h3>Accidents</h3>
        <span className="dim">{state.accidents.length || "none"}</span>
      </header>
      <ul>
        {state.accidents.slice(0, 50).map((one) => (
          <li key={`${one.xway}.${one.dir}.${one.seg}`}>
            <button className="plain" onClick={() => onChoose(one)}>
              Expressway {one.xway} {HEADING[one.dir]}, segment {one.seg}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
