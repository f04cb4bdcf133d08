// Run the network: start, pause, step, stop, and inspect tuples.
import { useEffect, useState } from "react";
import type { Problem } from "../shared/api";
import { Figure } from "../shared/figure";
import { count, duration } from "../shared/format";
import { Rows, text } from "../shared/rows";
import { StatusLight } from "../shared/status";
import { type Fields, type Inputs, mapping, readsFeeds } from "./input";
import * as m from "./model";
import { running, start, steer, type Tuples, tuples, type RunState } from "./server";

/** The state of the run on the server, polled twice a second while it is active. */
export function useRun(): [RunState | undefined, (run: RunState) => void] {
  const [run, setRun] = useState<RunState>();
  const [again, setAgain] = useState(0);
  const pace = !run || ["starting", "running", "stopping"].includes(run.status) ? 400 : 1500;
  useEffect(() => {
    let wanted = true;
    const soon = window.setTimeout(() => {
      running()
        .then((found) => wanted && setRun((before) => (JSON.stringify(before) === JSON.stringify(found) ? before : found)))
        .catch(() => undefined)
        .finally(() => wanted && setAgain((n) => n + 1));
    }, again === 0 ? 0 : pace);
    return () => {
      wanted = false;
      window.clearTimeout(soon);
    };
  }, [again, pace]);
  return [run, setRun];
}

const RATES: [string, number | null][] = [
  ["1/s", 1], ["5/s", 5], ["20/s", 20], ["100/s", 100], ["1,000/s", 1000], ["10,000/s", 10000], ["unlimited", null],
];

interface BarProps {
  doc: m.Doc;
  run: RunState | undefined;
  wrong: boolean;
  inputs: Inputs;
  fields: Fields;
  folders: readonly string[];
  parallel: number;
  onParallel: (parallel: number) => void;
  onRun: (run: RunState) => void;
  onProblem: (problem: Problem) => void;
}

export function RunBar({ doc, run, wrong, inputs, fields, folders, parallel, onParallel, onRun, onProblem }: BarProps) {
  const [rate, setRate] = useState<number | null>(5);
  const [train, setTrain] = useState(1);
  const status = run?.status ?? "idle";
  const busy = ["starting", "running", "paused", "stopping"].includes(status);
  const isLive = readsFeeds(doc, inputs, folders);
  const given = (part: "sources" | "tables") => Object.fromEntries(Object.keys(doc[part] ?? {}).map((name) => [name, inputs[`${part}.${name}`] ?? ""]));
  const columns = isLive ? mapping(doc, fields) : [];
  const begin = (steps: number) => start(doc, { inputs: given("sources"), tables: given("tables"), rate: isLive ? null : rate, train, steps, parallel, columns }).then(onRun, onProblem);
  const control = (what: "pause" | "resume" | "step" | "stop") => steer(what).then(onRun, onProblem);
  return (
    <section className="bar run-bar" aria-label="Run control">
      {!busy && (
        <button className="primary" disabled={wrong} onClick={() => void begin(0)}>
          Run
        </button>
      )}
      {busy && status !== "paused" && (
        <button disabled={status !== "running"} onClick={() => void control("pause")}>
          Pause
        </button>
      )}
      {status === "paused" && (
        <button className="primary" onClick={() => void control("resume")}>
          Resume
        </button>
      )}
      <button disabled={wrong || status === "starting" || status === "stopping" || status === "running"} onClick={() => void (busy ? control("step") : begin(1))}>
        Step
      </button>
      {busy && (
        <button disabled={status === "stopping"} onClick={() => void control("stop")}>
          Stop
        </button>
      )}
      <label title={isLive ? "Live sources have their own pace." : undefined}>
        Rate
        <select disabled={busy || isLive} value={String(rate)} onChange={(event) => setRate(RATES.find(([, value]) => String(value) === event.target.value)?.[1] ?? null)}>
          {RATES.map(([title, value]) => (
            <option key={title} value={String(value)}>
              {title}
            </option>
          ))}
        </select>
      </label>
      <label title="The number of tuples that arrive together. A step takes one train from each source.">
        Train
        <input type="number" min={1} step={1} disabled={busy || isLive} value={train} onChange={(event) => setTrain(Math.max(1, Math.round(Number(event.target.value) || 1)))} />
      </label>
      <label title="The number of partitions in which boxes with a key run. A new stage begins where keys change.">
        Partitions
        <input type="number" min={1} max={64} step={1} disabled={busy} value={parallel} onChange={(event) => onParallel(Math.min(64, Math.max(1, Math.round(Number(event.target.value) || 1))))} />
      </label>
      <StatusLight status={status} />
      {run && status !== "idle" && (
        <span className="dim mono">
          {run.folder}, {count(run.batches)} {run.batches === 1 ? "batch" : "batches"}
        </span>
      )}
    </section>
  );
}

/** The newest tuples on an arc or at an output. */
export function TupleDrawer({ doc, shapes, run, selected }: { doc: m.Doc; shapes: readonly m.Shape[]; run: RunState; selected: string | undefined }) {
  const [chosen, setChosen] = useState("");
  const [found, setFound] = useState<Tuples>();
  const ends = [...Object.keys(run.outputs), ...Object.keys(doc.points ?? {})];
  const choices = [...ends.map((name) => `end:${name}`), ...Object.keys(run.arcs).map((arc) => `arc:${arc}`)];
  useEffect(() => {
    const wanted = choiceOf(doc, selected);
    if (wanted && choices.includes(wanted)) setChosen(wanted);
    // only a selection changes the drawer
  }, [selected]);
  const shown = choices.includes(chosen) ? chosen : (choices[0] ?? "");
  const [kind, name] = [shown.slice(0, 3) as "end" | "arc", shown.slice(4)];
  useEffect(() => {
    if (!name) return;
    let wanted = true;
    tuples(kind, name).then((one) => wanted && setFound(one), () => wanted && setFound(undefined));
    return () => {
      wanted = false;
    };
  }, [kind, name, run.batches, run.folder]);
  const flow = kind === "end" ? run.outputs[name] : run.arcs[name];
  return (
    <section className="drawer" aria-label="Tuples">
      <header className="bar">
        <label>
          Tuples on
          <select value={shown} onChange={(event) => setChosen(event.target.value)}>
            {choices.map((one) => (
              <option key={one} value={one}>
                {one.startsWith("end:") ? `→ ${one.slice(4)}` : m.arcTitle(doc, one.slice(4), shapes)}
              </option>
            ))}
          </select>
        </label>
        {flow && (
          <dl>
            <Figure name="tuples" value={count(flow.tuples)} />
            <Figure name="rate" value={`${flow.rate.toFixed(1)}/s`} />
            <Figure name="delay" value={duration(flow.delay)} />
            <Figure name="worst" value={duration(flow.worst)} />
            {flow.utility !== null && <Figure name="on time" value={`${Math.round((flow.good ?? 0) * 100)} %`} />}
            {flow.utility !== null && <Figure name="delivered" value={`${Math.round((flow.delivered ?? 1) * 100)} %`} />}
            {flow.utility !== null && <Figure name="utility" value={flow.utility.toFixed(2)} />}
          </dl>
        )}
      </header>
      <div className="tuples" tabIndex={0} aria-label="Newest tuples">
        {found && found.rows.length > 0 ? (
          <Rows columns={found.columns} rows={[...found.rows].reverse().map((row) => row.map(text))} />
        ) : (
          <p className="note">No tuples here yet. A window closes when a tuple beyond it arrives in its group.</p>
        )}
      </div>
    </section>
  );
}

function choiceOf(doc: m.Doc, selected: string | undefined): string | undefined {
  if (!selected) return undefined;
  if (selected.startsWith("arc:")) return `arc:${selected.slice(4).split(">")[0]}`;
  const [part, name] = m.split(selected);
  return part === "outputs" || part === "points" ? `end:${name}` : doc.boxes[name] || doc.sources[name] ? `arc:${name}` : undefined;
}
