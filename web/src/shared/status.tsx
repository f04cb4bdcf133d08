// The status of a run or job, as text and a light.
export type Status = "idle" | "starting" | "running" | "paused" | "stopping" | "stopped" | "finished" | "failed";
/** The state of a job outside the console. */
export type JobState = Exclude<Status, "idle" | "stopping"> | "new" | "ready" | "gone" | "damaged";

const LABELS: Record<Status | JobState | "lost", string> = {
  new: "Never started",
  ready: "Waiting for input",
  gone: "Process not found",
  damaged: "Damaged",
  idle: "Nothing is running",
  starting: "Starting Spark",
  running: "Running",
  paused: "Paused",
  stopping: "Finishing the batch",
  stopped: "Stopped",
  finished: "Finished",
  failed: "Failed",
  lost: "Connection lost, retrying",
};

export function StatusLight({ status }: { status: Status | JobState | "lost" }) {
  return (
    <span className={`status ${status}`} role="status">
      <i aria-hidden="true" />
      {LABELS[status]}
    </span>
  );
}
