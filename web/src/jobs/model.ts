// The jobs API, and what follows from its answers without a page.
import { get, post } from "../shared/api";
import { count, duration } from "../shared/format";
import type { JobState } from "../shared/status";

export interface Verdict {
  level: "good" | "busy" | "bad" | "calm";
  text: string;
  hint: string;
}
export interface Response {
  name: string;
  typical: number;
  longest: number;
  limit: number | null;
}
export interface Entry {
  name: string;
  kind: string;
  state: JobState;
  verdict: Verdict;
  batches: number;
  committed_at: number | null;
  source: string;
  rate: number | null;
  lag: number | null;
  response: Response | null;
  why: string;
}
export interface Done {
  batch: number;
  committed_at: number;
  tuples: number;
  rejects: number;
  rows: number;
  commit_s: number | null;
  state_bytes: number | null;
  lag: number | null;
}
export interface Start {
  at: number;
  version: string;
  command: string;
}
export interface Health {
  rate: number | null;
  lag: number | null;
  trend: "growing" | "steady" | "shrinking";
  busy: number | null;
  bottleneck: string;
  is_behind: boolean;
  responses: Response[];
}
export interface Detail {
  name: string;
  kind: string;
  state: JobState;
  verdict: Verdict;
  why: string;
  since: number | null;
  source: string;
  pace: number | null;
  ui: string;
  settings: Record<string, string>;
  batches: number;
  tuples: number;
  rejects: number;
  committed_at: number | null;
  commit_s: number | null;
  state_bytes: number | null;
  health: Health;
  recent: Done[];
  starts: Start[];
  outputs: { name: string; columns: string[]; rows: number }[];
  cuboids: string[];
  problems: string[];
  resumable: string;
}

export const ACTIVE: readonly JobState[] = ["starting", "ready", "running", "paused"];

/** The rate of a job, and its response against the limit that it is closest to, if limits apply. */
export function describePace({ rate, response }: Pick<Entry, "rate" | "response">): string {
  const against = response && response.limit !== null ? `${response.name.replaceAll("_", " ")} ${duration(response.typical)} of ${response.limit} s` : "";
  return [rate === null ? "" : `${count(rate)} tuples/s`, against].filter(Boolean).join(", ");
}

export type Kind = "toll" | "archive" | "network" | "cuboid";
export interface Specification {
  job: Kind;
  out: string;
  inputs: Record<string, string>;
  network: string;
  definitions: string;
  columns: string[];
  format: string;
  follow: boolean;
  speed: number;
  rules: "2004" | "2003";
  archive: boolean;
  snapshot: boolean;
  rate: number | null;
  parallel: number;
}
export interface Choices {
  inputs: string[];
  networks: string[];
  folder: string;
}

export const EMPTY: Specification = {
  job: "toll",
  out: "",
  inputs: {},
  network: "",
  definitions: "",
  columns: [],
  format: "",
  follow: false,
  speed: 0,
  rules: "2004",
  archive: false,
  snapshot: true,
  rate: null,
  parallel: 0,
};

/** The fields that a kind of job has, in the order of the YAML. */
const FIELDS: Record<Kind, readonly (keyof Specification)[]> = {
  toll: ["inputs", "columns", "format", "follow", "speed", "rules", "archive", "snapshot", "parallel"],
  archive: ["inputs", "columns", "format", "follow", "speed", "parallel"],
  network: ["network", "inputs", "columns", "format", "follow", "rate", "parallel"],
  cuboid: ["inputs", "definitions", "columns", "format", "follow", "parallel"],
};

/** Only what a kind of job has, and what differs from the default: what the server gets, and what the YAML shows. */
export function essential(wanted: Specification): Partial<Specification> {
  const kept: Record<string, unknown> = { job: wanted.job };
  if (wanted.out) kept.out = wanted.out;
  for (const field of FIELDS[wanted.job]) {
    if (field === "inputs" || JSON.stringify(wanted[field]) !== JSON.stringify(EMPTY[field])) kept[field] = wanted[field];
  }
  return kept;
}

const PLAIN = /^[A-Za-z][\w./:-]*$/;
const RESERVED = /^(true|false|null|yes|no|on|off|y|n)$/i;

function scalar(value: unknown): string {
  if (typeof value !== "string") return String(value);
  return PLAIN.test(value) && !RESERVED.test(value) && !value.endsWith(":") ? value : JSON.stringify(value);
}

/** A job as YAML; the server reads it back. */
export function toYaml(wanted: Specification): string {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(essential(wanted))) {
    if (Array.isArray(value)) lines.push(`${name}: [${value.map(scalar).join(", ")}]`);
    else if (typeof value === "object" && value !== null) {
      const inside = Object.entries(value);
      lines.push(inside.length ? `${name}:` : `${name}: {}`, ...inside.map(([key, where]) => `  ${scalar(key)}: ${scalar(where)}`));
    } else if (typeof value === "string" && value.includes("\n")) lines.push(`${name}: |`, ...value.trimEnd().split("\n").map((line) => `  ${line}`));
    else lines.push(`${name}: ${scalar(value)}`);
  }
  return `${lines.join("\n")}\n`;
}

/** `vin=id, time=ts:ms` as a list. */
export const splitColumns = (text: string): string[] =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);

export const choices = () => get<Choices>("/api/jobs/choices");
export const readYaml = (text: string) => post<Specification>("/api/jobs/read", { text });
export const start = (wanted: Specification) => post<{ name: string; command: string }>("/api/jobs/start", essential(wanted));
export const resume = (job: string) => post<Detail>("/api/jobs/resume", { job });
export const control = (job: string, want: string) => post<Detail>("/api/jobs/want", { job, want });

/** Whether rows with these columns can be shown on the map. */
export const hasPlace = (columns: readonly string[]): boolean => columns.includes("Trip") || [["lon", "lat"], ["lng", "lat"], ["longitude", "latitude"], ["x", "y"]].some((pair) => pair.every((one) => columns.includes(one)));
