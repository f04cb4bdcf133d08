// How something that runs is doing, in a word and a light.
export type Status = "idle" | "starting" | "running" | "paused" | "stopping" | "stopped" | "finished" | "failed";

const WORDS: Record<Status | "lost", string> = {
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

export function StatusLight({ status }: { status: Status | "lost" }) {
  return (
    <span className={`status ${status}`} role="status">
      <i aria-hidden="true" />
      {WORDS[status]}
    </span>
  );
}
