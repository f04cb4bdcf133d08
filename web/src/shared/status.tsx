// How something that runs is doing, in a word and a light.
export type Status = "idle" | "starting" | "running" | "paused" | "stopping" | "stopped" | "finished" | "failed";
/** Of a job that somebody else runs. */
export type JobState = Exclude<Status, "idle" | "stopping"> | "new" | "ready" | "gone" | "damaged";

const WORDS: Record<Status | JobState | "lost", string> = {
  new: "Never started",
  ready: "Waiting for input",
  gone: "Its process is gone",
  damaged: "Cannot be read",
  idle: "Nothing is running",
  starting: "Starting Spark",
  running: "Running",
  paused: "Paused",
  stopping: "Finishing its batch",
  stopped: "Stopped",
  finished: "Finished",
  failed: "Failed",
  lost: "Connection lost, trying again",
};

export function StatusLight({ status }: { status: Status | JobState | "lost" }) {
  return (
    <span className={`status ${status}`} role="status">
      <i aria-hidden="true" />
      {WORDS[status]}
    </span>
  );
}
