// The network API.
import { get, post, put } from "../shared/api";
import type { Status } from "../shared/status";
import type { Columns, Doc, Shape } from "./model";

export interface WorkspaceContents {
  networks: string[];
  recordings: string[];
  /** folders with files of tuples, which a source may follow */
  folders: string[];
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
/** What a box costs and remembers now. */
export interface BoxWeight {
  /** of the time of all boxes */
  share: number;
  /** of the time, how much it works */
  busy: number | null;
  rows: number;
  bytes: number;
}
/** The same over time. */
export interface BoxHistory {
  at: number[];
  busy: (number | null)[];
  rows: number[];
  bytes: number[];
  delay: (number | null)[];
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
  is_live: boolean;
  boxes: Record<string, BoxWeight>;
  arcs: Record<string, Flow>;
  outputs: Record<string, Flow>;
  drops: Drop[];
}
export interface Tuples {
  columns: string[];
  rows: unknown[][];
}
export interface Preview extends Tuples {
  types: Columns;
}
export interface RunOptions {
  inputs: Record<string, string>;
  tables: Record<string, string>;
  rate: number | null;
  train: number;
  steps: number;
  parallel: number;
  /** of feeds: the field behind a column */
  columns: string[];
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
export const history = (box: string) => get<BoxHistory>(at("run/history", { box }));
export const preview = (source: string) => post<Preview>(at("preview"), { source, last: 50 });
export const tuples = (kind: "arc" | "end", name: string) => get<Tuples>(at("run/tuples", { kind, name }));
