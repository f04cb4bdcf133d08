// The network API.
import { get, post, put } from "../shared/api";
import type { Status } from "../shared/status";
import type { Columns, Doc, Shape } from "./model";

export interface WorkspaceContents {
  networks: string[];
  recordings: string[];
  operators: Shape[];
  awake: boolean;
}
export interface Complaint {
  place: string;
  message: string;
  hint: string;
  column: string;
  expression: string;
  code: string;
}
export interface Verdict {
  complaints: Complaint[];
  warnings: string[];
  schemas: Record<string, Columns>;
  stages: Stage[];
}
export interface Stage {
  stage: number;
  boxes: string[];
  keys: string[][];
  partitions: number;
  summary: string;
}
export interface Flow {
  tuples: number;
  rate: number;
  delay: number | null;
  worst: number | null;
  good: number | null;
  delivered: number | null;
  utility: number | null;
}
export interface Drop {
  place: string;
  arc: string;
  taker: string;
  side: number;
  is_output: boolean;
  share: number;
  dropped: number;
}
export interface RunState {
  status: Status;
  error: string;
  hint: string;
  network: string;
  folder: string;
  steps_left: number;
  batches: number;
  queues: Record<string, number>;
  arcs: Record<string, Flow>;
  outputs: Record<string, Flow>;
  drops: Drop[];
}
export interface Tuples {
  columns: string[];
  rows: unknown[][];
}
export interface RunOptions {
  inputs: Record<string, string>;
  tables: Record<string, string>;
  rate: number | null;
  train: number;
  steps: number;
  parallel: number;
}

const at = (path: string, query: Record<string, string> = {}) => `/api/network/${path}?${new URLSearchParams(query)}`;

export const contents = () => get<WorkspaceContents>(at("workspace"));
export const open = (file: string) => get<{ file: string; document: Doc }>(at("file", { file }));
export const save = (file: string, document: Doc, replace: boolean) => put<{ file: string; document: Doc }>(at("file"), { file, document, replace });
export const write = (document: Doc) => post<{ text: string }>(at("write"), { document });
export const read = (text: string) => post<{ document: Doc }>(at("read"), { text });
export const columns = (recording: string) => get<{ columns: Columns }>(at("columns", { recording }));
export const check = (document: Doc, parallel: number) => post<Verdict>(at("check"), { document, parallel });
export const running = () => get<RunState>(at("run"));
export const start = (document: Doc, options: RunOptions) => post<RunState>(at("run/start"), { document, ...options });
export const steer = (what: "pause" | "resume" | "step" | "stop") => post<RunState>(at(`run/${what}`));
export const shed = (shares: Record<string, number>) => put<RunState>(at("run/shed"), { shares });
export const tuples = (kind: "arc" | "end", name: string) => get<Tuples>(at("run/tuples", { kind, name }));
