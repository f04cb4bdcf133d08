// One job: the verdict, the figures behind it, what it did over time, its outputs, its starts and its log.
import { useEffect, useRef, useState } from "react";
import type { Problem } from "../shared/api";
import { Chart } from "../shared/chart";
import { Figure } from "../shared/figure";
import { bytes, count, duration, instant } from "../shared/format";
import { useFresh, useLatest } from "../shared/fresh";
import { useRangeParam } from "../shared/link";
import { ErrorNote } from "../shared/notes";
import { navigate, useParam } from "../shared/router";
import { Rows, text } from "../shared/rows";
import { StatusLight } from "../shared/status";
import { colour, useTheme } from "../shared/theme";
import { Tip } from "../shared/tip";
import { ACTIVE, control, hasPlace, type Detail, type Done, resume, type Response } from "./model";

/** What the figures mean; the terms are those of the documentation. */
const TIPS = {
  rate: "Accepted input per second: over the last minute of commits, or over the last batches of a job that has ended.",
  lag: "The time from the arrival of input to the commit of its results, in the last batch. Recorded input that is read at full speed has no lag, because nothing waits.",
  busy: "The share of the time that is spent on batches. Near 100 %, the job has no headroom: a burst or a restart will make it late.",
  bottleneck: "What takes most of a batch's time: a stage of the job, or reading, planning or checkpointing.",
  batches: "Spark processes a stream in batches. Each is committed as a whole: all of its results become visible, or none.",
  tuples: "Accepted input: position reports, requests, or rows.",
  rejects: "Input that could not be used. The output rejects lists it, with the reasons.",
  committed: "When results last became visible.",
  commit: "The time from the start of a batch to its commit, averaged over recent batches.",
  state: "What the job keeps between batches, such as vehicles, windows and accounts, on disk and in memory.",
  response: "The time from the arrival of input to the commit of its result. Typical is the median of recent batches, longest the maximum of the last minute.",
};

interface Props {
  name: string;
  tick: number;
  onProblem: (problem: Problem | undefined) => void;
}

export function JobView({ name, tick, onProblem }: Props) {
  const path = `/api/jobs/job?${new URLSearchParams({ job: name })}`;
  const { data, problem } = useFresh<Detail>(path, tick);
  const job = useLatest(data, path);
  if (!job) return problem ? <ErrorNote problem={problem} /> : <p className="note">Loading…</p>;
  const act = (request: Promise<Detail>) => void request.then(() => onProblem(undefined), onProblem);
  return (
    <section className="job" aria-label={`Job ${name}`}>
      <header className="bar">
        <h2>{name}</h2>
        <span className="dim">{job.kind}</span>
        <StatusLight status={job.state} />
        {job.since !== null && <span className="dim">since {instant(job.since)}</span>}
        <span className="grow" />
        <Elsewhere job={job} />
        <JobControls job={job} act={act} />
      </header>
      <div className={`card verdict ${job.verdict.level}`} role="status" aria-label="Verdict">
        <i aria-hidden="true" />
        <strong>{job.verdict.text}</strong>
        <span className="dim">{job.verdict.hint}</span>
      </div>
      {job.problems.map((one) => (
        <ErrorNote key={one} problem={{ message: one }} />
      ))}
      <Figures job={job} />
      <Responses job={job} />
      <Batches recent={job.recent} starts={job.starts.map((one) => one.at)} />
      <Outputs job={job} />
      <Log name={name} tick={tick} open={job.verdict.level === "bad"} />
      <Starts job={job} />
      <Facts job={job} />
    </section>
  );
}

function Figures({ job }: { job: Detail }) {
  const { health } = job;
  const runs = job.state === "running" || job.state === "ready";
  const share = (value: number) => `${Math.round(100 * value)} %`;
  return (
    <dl className="card figures">
      <Figure name="Rate" tip={TIPS.rate} value={health.rate === null ? "–" : count(health.rate)} unit={health.rate === null ? "" : "tuples/s"} />
      <Figure name="Lag" tip={TIPS.lag} value={runs ? duration(health.lag) : "–"} alarm={health.is_behind} />
      <Figure name="Busy" tip={TIPS.busy} value={health.busy === null ? "–" : share(health.busy)} />
      <Figure name="Bottleneck" tip={TIPS.bottleneck} value={health.bottleneck || "–"} />
      <Figure name="Batches" tip={TIPS.batches} value={count(job.batches)} />
      <Figure name="Tuples" tip={TIPS.tuples} value={count(job.tuples)} />
      <Figure name="Rejects" tip={TIPS.rejects} value={count(job.rejects)} alarm={runs && job.rejects > 0} />
      <Figure name="Last commit" tip={TIPS.committed} value={job.committed_at === null ? "–" : instant(job.committed_at)} />
      <Figure name="Mean commit time" tip={TIPS.commit} value={duration(job.commit_s)} />
      <Figure name="State" tip={TIPS.state} value={job.state_bytes === null ? "–" : bytes(job.state_bytes)} />
    </dl>
  );
}

/** Response times against their limits; limits that do not apply are grey and judge nothing. */
function Responses({ job }: { job: Detail }) {
  const { responses } = job.health;
  if (!responses.length) return null;
  const applies = responses.some((one) => one.limit !== null);
  const ended = !ACTIVE.includes(job.state);
  const note = applies ? "compared with the limit" : ended ? "of the last batches; no limit applies, as the job has ended" : job.pace !== 1 ? "limits apply in real time only" : "no limits are set";
  return (
    <section className="card responses" aria-label="Response times">
      <header>
        <h3>
          <Tip text={TIPS.response}>Response times</Tip>
        </h3>
        <span className="dim">{note}</span>
      </header>
      <table>
        <thead>
          <tr>
            <th scope="col">Result</th>
            <th scope="col">Typical</th>
            <th scope="col">Longest</th>
            <th scope="col" className={applies ? "" : "off"}>
              Limit
            </th>
            <th scope="col">
              <span className="sr">Share of the limit</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {responses.map((one) => (
            <ResponseRow key={one.name} response={one} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function ResponseRow({ response }: { response: Response }) {
  const { limit, typical, longest } = response;
  const late = limit !== null && typical > limit;
  const share = (value: number) => `${Math.min(100, limit ? (100 * value) / limit : 0)}%`;
  return (
    <tr className={late ? "alarm" : ""}>
      <th scope="row">{response.name.replaceAll("_", " ")}</th>
      <td>{duration(typical)}</td>
      <td>{duration(longest)}</td>
      <td className={limit === null ? "off" : ""}>{limit === null ? "–" : `${limit} s`}</td>
      <td className="against" aria-hidden="true">
        {limit !== null && (
          <span className={`gauge ${late ? "alarm" : ""}`}>
            <i className="longest" style={{ width: share(longest) }} />
            <i style={{ width: share(typical) }} />
          </span>
        )}
      </td>
    </tr>
  );
}

/** Other pages that show this job, and Spark's own. */
function Elsewhere({ job }: { job: Detail }) {
  const link = (path: string, title: string) => (
    <a
      className="button"
      href={path}
      onClick={(event) => {
        event.preventDefault();
        navigate(path);
      }}
    >
      {title}
    </a>
  );
  return (
    <>
      {job.kind === "toll" && job.batches > 0 && link(`/city?${new URLSearchParams({ result: job.name })}`, "Live city")}
      {job.outputs.some((one) => hasPlace(one.columns)) && link(`/map?${new URLSearchParams({ job: job.name })}`, "Map")}
      {job.ui && ACTIVE.includes(job.state) && (
        <a className="button" href={job.ui} target="_blank" rel="noreferrer">
          Spark UI
        </a>
      )}
    </>
  );
}

function JobControls({ job, act }: { job: Detail; act: (request: Promise<Detail>) => void }) {
  const { state, name } = job;
  if (!ACTIVE.includes(state)) {
    if (state === "finished" || state === "damaged" || state === "new") return null;
    return (
      <div className="buttons">
        <button className="primary" disabled={job.resumable !== ""} title={job.resumable} onClick={() => act(resume(name))}>
          Resume
        </button>
        {job.resumable && <span className="dim">{job.resumable}</span>}
      </div>
    );
  }
  return (
    <div className="buttons">
      {state === "paused" ? (
        <button className="primary" onClick={() => act(control(name, "run"))}>
          Resume
        </button>
      ) : (
        <button disabled={state === "starting"} onClick={() => act(control(name, "pause"))}>
          Pause
        </button>
      )}
      <button disabled={state !== "paused"} onClick={() => act(control(name, "step"))}>
        Step
      </button>
      <button onClick={() => act(control(name, "stop"))}>Stop</button>
    </div>
  );
}

function Batches({ recent, starts }: { recent: Done[]; starts: number[] }) {
  useTheme();
  const [range, onRange] = useRangeParam("range");
  const zoom = { range, onRange };
  // skip empty batches: a job warms up with some, and a quiet feed has many
  const busy = recent.filter((one) => one.tuples > 0 || one.rows > 0);
  // the time since the first start that is known, so that a range in a link stays the same
  const first = starts[0] ?? busy[0]?.committed_at ?? 0;
  const x = busy.map((one) => one.committed_at - first);
  if (busy.length < 3) return null;
  // restarts between these batches; the first start precedes them
  const marks = starts.map((at) => at - first).filter((at) => at > 0);
  const lags = busy.some((one) => one.lag !== null);
  return (
    <div className="charts">
      <Chart {...zoom} title="Tuples per batch" unit="" x={x} marks={marks} lines={[{ label: "tuples", colour: colour("accent") }]} values={[busy.map((one) => one.tuples)]} bare />
      <Chart {...zoom} title="Commit time" unit="s" x={x} marks={marks} lines={[{ label: "commit", colour: colour("mark") }]} values={[busy.map((one) => one.commit_s)]} bare />
      {lags && <Chart {...zoom} title="Lag" unit="s" x={x} marks={marks} lines={[{ label: "lag", colour: colour("accent") }]} values={[busy.map((one) => one.lag)]} bare />}
    </div>
  );
}

function Outputs({ job }: { job: Detail }) {
  const [chosen, choose] = useParam("output");
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
            <button key={one.name} role="radio" aria-checked={one === shown} onClick={() => choose(one.name)}>
              {one.name} <span className="mono">{count(one.rows)}</span>
            </button>
          ))}
        </div>
      </header>
      {problem && <ErrorNote problem={problem} />}
      {job.outputs.length === 0 && <p className="note">Nothing has been committed yet.</p>}
      {found && found.rows.length > 0 && (
        <div className="rows" tabIndex={0} role="region" aria-label="Newest rows">
          <Rows columns={found.columns} rows={[...found.rows].reverse().map((row) => row.map(text))} />
        </div>
      )}
      {found && found.rows.length === 0 && <p className="note">No rows yet.</p>}
    </section>
  );
}

/** The end of the log; requested only while it is open. */
function Log({ name, tick, open }: { name: string; tick: number; open: boolean }) {
  const [wanted, setWanted] = useState<boolean>();
  const shown = wanted ?? open;
  const path = shown ? `/api/jobs/log?${new URLSearchParams({ job: name })}` : undefined;
  const { data, problem } = useFresh<{ text: string }>(path, Math.floor(tick / 2));
  const found = useLatest(data, path);
  const end = useRef<HTMLPreElement>(null);
  const log = found?.text;
  useEffect(() => {
    if (end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [log]);
  return (
    <details className="card log" open={shown} onToggle={(event) => setWanted(event.currentTarget.open)}>
      <summary>Log</summary>
      {problem && <ErrorNote problem={problem} />}
      {shown && log !== undefined && (
        <pre ref={end} tabIndex={0} role="region" aria-label="Log of the job">
          {log || "The log is empty. The version that last ran this job did not keep one."}
        </pre>
      )}
    </details>
  );
}

function Starts({ job }: { job: Detail }) {
  if (!job.starts.length) return null;
  return (
    <details className="card log">
      <summary>
        {job.starts.length === 1 ? "1 start" : `${count(job.starts.length)} starts`}, the last {instant(job.starts.at(-1)?.at ?? 0)}
      </summary>
      <div className="rows" tabIndex={0} role="region" aria-label="Starts">
        <Rows columns={["started", "version", "command"]} rows={[...job.starts].reverse().map((one) => [instant(one.at), one.version, one.command || "not started by a command"])} />
      </div>
    </details>
  );
}

/** The settings fixed at the first start of the job. */
function Facts({ job }: { job: Detail }) {
  const pace = job.pace === null ? [] : [["input arrives", job.pace === 0 ? "at full speed" : job.pace === 1 ? "in real time" : `at ${job.pace}× real time`] as [string, string]];
  const facts: [string, string][] = [
    ...(job.source ? [["source", job.source] as [string, string]] : []),
    ...pace,
    ...(job.cuboids.length ? [["cuboids", job.cuboids.join(", ")] as [string, string]] : []),
    ...(job.why && !ACTIVE.includes(job.state) ? [["stopped", job.why] as [string, string]] : []),
    ...Object.entries(job.settings),
  ];
  if (!facts.length) return null;
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
