// The jobs of the workspace, of every kind: one verdict each, then progress, outputs and log.
import "./jobs.css";
import { useEffect, useState } from "react";
import type { Problem } from "../shared/api";
import { count } from "../shared/format";
import { useFresh, useLatest } from "../shared/fresh";
import { Empty, ErrorNote } from "../shared/notes";
import { useParam } from "../shared/router";
import { JobView } from "./job";
import { ACTIVE, describePace, type Entry } from "./model";
import { NewJob } from "./start";

/** A counter that triggers a refresh while the page is open. */
function useTick(ms: number): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = window.setInterval(() => setTick((n) => n + 1), ms);
    return () => window.clearInterval(timer);
  }, [ms]);
  return tick;
}

export function JobsPage() {
  const tick = useTick(1000);
  const { data, problem } = useFresh<Entry[]>("/api/jobs", Math.floor(tick / 2));
  const jobs = useLatest(data, "jobs");
  const [asked, choose] = useParam("job");
  const [adding, setAdding] = useParam("new");
  const [refused, setRefused] = useState<Problem>();
  if (!jobs) return problem ? <ErrorNote problem={problem} /> : <p className="note">Loading…</p>;
  const name = jobs.some((one) => one.name === asked) ? asked : asked === undefined ? jobs[0]?.name : undefined;
  const isNew = adding !== undefined;
  return (
    <div className="jobs page">
      {refused && <ErrorNote problem={refused} onClose={() => setRefused(undefined)} />}
      <div className="columns">
        <div className="side">
          <header className="bar">
            <h1>Jobs</h1>
            <span className="dim">{summary(jobs)}</span>
            <span className="grow" />
            <button className={jobs.length ? "" : "primary"} onClick={() => setAdding("1", true)} disabled={isNew}>
              New job
            </button>
          </header>
          <JobList
            jobs={jobs}
            chosen={isNew ? undefined : name}
            onChoose={(one) => {
              setAdding(undefined);
              choose(one, true);
            }}
          />
        </div>
        {isNew ? (
          <NewJob
            onClose={() => setAdding(undefined)}
            onStarted={(started) => {
              setAdding(undefined);
              choose(started);
            }}
          />
        ) : name !== undefined ? (
          <JobView key={name} name={name} tick={tick} onProblem={setRefused} />
        ) : (
          <Nothing asked={asked} />
        )}
      </div>
    </div>
  );
}

function summary(jobs: readonly Entry[]): string {
  const running = jobs.filter((one) => ACTIVE.includes(one.state)).length;
  const bad = jobs.filter((one) => one.verdict.level === "bad").length;
  return `${count(running)} of ${count(jobs.length)} running${bad ? `, ${count(bad)} with problems` : ""}`;
}

function Nothing({ asked }: { asked: string | undefined }) {
  if (asked !== undefined) {
    return (
      <div className="centre">
        <Empty title={`No job ${asked}`}>
          <p>It is not in this workspace. Choose another.</p>
        </Empty>
      </div>
    );
  }
  return (
    <div className="centre">
      <Empty title="No jobs yet">
        <p>
          Start one with <em>New job</em>, or with <code>slipstream toll</code>, <code>archive</code>, <code>network run</code> or <code>cuboid run</code>. Their folders appear here automatically.
        </p>
      </Empty>
    </div>
  );
}

function JobList({ jobs, chosen, onChoose }: { jobs: Entry[]; chosen: string | undefined; onChoose: (name: string) => void }) {
  return (
    <nav className="card list" aria-label="Jobs">
      {jobs.length === 0 && <p className="note">None yet.</p>}
      {jobs.map((one) => (
        <button key={one.name} className="plain" aria-current={one.name === chosen || undefined} onClick={() => onChoose(one.name)}>
          <strong>{one.name}</strong>
          <span className={`verdict ${one.verdict.level}`}>
            <i aria-hidden="true" />
            {one.verdict.text}
          </span>
          <span className="dim">
            {one.kind || "unknown"}
            {one.source && `, from ${one.source}`}
          </span>
          {ACTIVE.includes(one.state) && one.state !== "starting" && <span className="dim">{describePace(one)}</span>}
        </button>
      ))}
    </nav>
  );
}
