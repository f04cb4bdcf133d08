// The jobs of the workspace, of every kind: state, progress and outputs.
import "./jobs.css";
import { useEffect, useState } from "react";
import { post, type Problem } from "../shared/api";
import { Chart } from "../shared/chart";
import { Figure } from "../shared/figure";
import { bytes, count, duration, instant } from "../shared/format";
import { useFresh } from "../shared/fresh";
import { Empty, ErrorNote } from "../shared/notes";
import { Rows, text } from "../shared/rows";
import { type JobState, StatusLight } from "../shared/status";
import { colour, useTheme } from "../shared/theme";

interface Entry {
  name: string;
  kind: string;
  state: JobState;
  batches: number;
  committed_at: number | null;
}
interface Done {
  batch: number;
  committed_at: number;
  tuples: number;
  rejects: number;
  rows: number;
  commit_s: number | null;
  state_bytes: number | null;
}
interface Detail extends Entry {
  why: string;
  since: number | null;
  source: string;
  settings: Record<string, string>;
  tuples: number;
  rejects: number;
  commit_s: number | null;
  state_bytes: number | null;
  recent: Done[];
  outputs: { name: string; columns: string[]; rows: number }[];
  cuboids: string[];
  problems: string[];
}

const ACTIVE: readonly JobState[] = ["starting", "ready", "running", "paused"];

/** A counter that triggers a refresh while the page is open. */
function useTick(ms: number): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((n) => n + 1), ms);
    return () => window.clearInterval(timer);
  }, [ms]);
  return tick;
}

/** The last known value, until the next response arrives. */
function useLatest<T>(fresh: T | undefined, of: unknown): T | undefined {
  const [kept, setKept] = useState<{ of: unknown; data: T }>();
  useEffect(() => {
    if (fresh !== undefined) setKept({ of, data: fresh });
  }, [fresh, of]);
  return fresh ?? (kept?.of === of ? kept?.data : undefined);
}

export function JobsPage() {
  const tick = useTick(1000);
  const { data, problem } = useFresh<Entry[]>("/api/jobs", Math.floor(tick / 2));
  const jobs = useLatest(data, "jobs");
  const [chosen, setChosen] = useState("");
  const [refused, setRefused] = useState<Problem>();
  const name = jobs?.some((one) => one.name === chosen) ? chosen : (jobs?.[0]?.name ?? "");
  if (!jobs) return problem ? <ErrorNote problem={problem} /> : <p className="note">Loading…</p>;
  return (
    <div className="jobs page">
      {refused && <ErrorNote problem={refused} onClose={() => setRefused(undefined)} />}
      {jobs.length === 0 ? (
        <div className="centre">
          <Empty title="No jobs yet">
            <p>
              A job is the folder that <code>slipstream toll</code>, <code>archive</code>, <code>network run</code> or <code>cuboid run</code> writes to.
            </p>
          </Empty>
        </div>
      ) : (
        <div className="columns">
          <JobList jobs={jobs} chosen={name} onChoose={setChosen} />
          <Job key={name} name={name} tick={tick} onProblem={setRefused} />
        </div>
      )}
    </div>
  );
}

function JobList({ jobs, chosen, onChoose }: { jobs: Entry[]; chosen: string; onChoose: (name: string) => void }) {
  return (
    <nav className="card list" aria-label="Jobs">
      {jobs.map((one) => (
        <button key={one.name} className="plain" aria-current={one.name === chosen || undefined} onClick={() => onChoose(one.name)}>
          <strong>{one.name}</strong>
          <span className="dim">
            {one.kind || "unknown"}, {count(one.batches)} {one.batches === 1 ? "batch" : "batches"}
          </span>
          <StatusLight status={one.state} />
        </button>
      ))}
    </nav>
  );
}

function Job({ name, tick, onProblem }: { name: string; tick: number; onProblem: (problem: Problem | undefined) => void }) {
  const path = `/api/jobs/job?${new URLSearchParams({ job: name })}`;
  const { data, problem } = useFresh<Detail>(path, tick);
  const job = useLatest(data, path);
  if (!job) return problem ? <ErrorNote problem={problem} /> : <p className="note">Loading…</p>;
  const control = (want: string) => post("/api/jobs/want", { job: name, want }).then(() => onProblem(undefined), onProblem);
  const ended = job.state === "failed" || job.state === "damaged";
  return (
    <section className="job" aria-label={`Job ${name}`}>
      <header className="bar">
        <h2>{name}</h2>
        <span className="dim">{job.kind}</span>
        <StatusLight status={job.state} />
        {job.since !== null && <span className="dim">since {instant(job.since)}</span>}
        <span className="grow" />
        {ACTIVE.includes(job.state) && <JobControls state={job.state} control={control} />}
      </header>
      {ended && job.why && <ErrorNote problem={{ message: job.why }} />}
      {job.problems.map((one) => (
        <ErrorNote key={one} problem={{ message: one }} />
      ))}
      <dl className="card figures">
        <Figure name="batches" value={count(job.batches)} />
        <Figure name="tuples" value={count(job.tuples)} />
        <Figure name="rejects" value={count(job.rejects)} alarm={job.rejects > 0} />
        <Figure name="last commit" value={job.committed_at === null ? "–" : instant(job.committed_at)} />
        <Figure name="mean commit time" value={duration(job.commit_s)} />
        <Figure name="state" value={job.state_bytes === null ? "–" : bytes(job.state_bytes)} />
      </dl>
      <Batches recent={job.recent} />
      <Outputs job={job} />
      <Facts job={job} />
    </section>
  );
}

function JobControls({ state, control }: { state: JobState; control: (want: string) => void }) {
  return (
    <div className="buttons">
      {state === "paused" ? (
        <button className="primary" onClick={() => control("run")}>
          Resume
        </button>
      ) : (
        <button onClick={() => control("pause")}>Pause</button>
      )}
      <button disabled={state !== "paused"} onClick={() => control("step")}>
        Step
      </button>
      <button onClick={() => control("stop")}>Stop</button>
    </div>
  );
}

function Batches({ recent }: { recent: Done[] }) {
  useTheme();
  // skip empty batches: a job warms up with some, and a quiet feed has many
  const busy = recent.filter((one) => one.tuples > 0 || one.rows > 0);
  const first = busy[0]?.committed_at ?? 0;
  const x = busy.map((one) => one.committed_at - first);
  if (busy.length < 3) return null;
  return (
    <div className="charts">
      <Chart title="Tuples per batch" unit="" x={x} lines={[{ label: "tuples", colour: colour("accent") }]} values={[busy.map((one) => one.tuples)]} bare />
      <Chart title="Commit time" unit="s" x={x} lines={[{ label: "commit", colour: colour("mark") }]} values={[busy.map((one) => one.commit_s)]} bare />
    </div>
  );
}

function Outputs({ job }: { job: Detail }) {
  const [chosen, setChosen] = useState("");
  const shown = job.outputs.find((one) => one.name === chosen) ?? job.outputs.find((one) => one.rows > 0) ?? job.outputs[0];
  const path = shown && `/api/jobs/rows?${new URLSearchParams({ job: job.name, output: shown.name, last: "50" })}`;
  const { data, problem } = useFresh<{ columns: string[]; rows: unknown[][] }>(path, shown?.rows);
  const found = useLatest(data, path);
  return (
    <section className="card outputs" aria-label="Outputs">
      <header>
        <h3>Outputs</h3>
        <div className="segmented" role="radiogroup" aria-label="Output">
          {job.outputs.map((one) => (
            <button key={one.name} role="radio" aria-checked={one === shown} onClick={() => setChosen(one.name)}>
              {one.name} <span className="mono">{count(one.rows)}</span>
            </button>
          ))}
        </div>
      </header>
      {problem && <ErrorNote problem={problem} />}
      {job.outputs.length === 0 && <p className="note">Nothing has been committed yet.</p>}
      {found && found.rows.length > 0 && (
        <div className="rows" tabIndex={0} aria-label="Newest rows">
          <Rows columns={found.columns} rows={[...found.rows].reverse().map((row) => row.map(text))} />
        </div>
      )}
      {found && found.rows.length === 0 && <p className="note">No rows yet.</p>}
    </section>
  );
}

/** The settings fixed at the first start of the job. */
function Facts({ job }: { job: Detail }) {
  const facts: [string, string][] = [
    ...(job.source ? [["source", job.source] as [string, string]] : []),
    ...(job.cuboids.length ? [["cuboids", job.cuboids.join(", ")] as [string, string]] : []),
    ...(job.why && !ACTIVE.includes(job.state) ? [["stopped", job.why] as [string, string]] : []),
    ...Object.entries(job.settings),
  ];
  return (
    <section className="card facts" aria-label="Settings">
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="mono">{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
