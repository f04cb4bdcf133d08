// What the server says of networks.
import { get, post, put } from "../shared/api";
import type { Status } from "../shared/status";
import type { Columns, Doc, Shape } from "./model";

export interface Shelf {
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
  said: string;
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
export interface Working {
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
export interface Order {
  inputs: Record<string, string>;
  tables: Record<string, string>;
  rate: number | null;
  train: number;
  steps: number;
  parallel: number;
}

const at = (path: string, query: Record<string, string> = {}) => `/api/network/${path}?${new URLSearchParams(query)}`;

export const shelf = () => get<Shelf>(at("shelf"));
export const open = (file: string) => get<{ file: string; document: Doc }>(at("file", { file }));
export const save = (file: string, document: Doc, replace: boolean) => put<{ file: string; document: Doc }>(at("file"), { file, document, replace });
export const columns = (recording: string) => get<{ columns: Columns }>(at("columns", { recording }));
export const check = (document: Doc, parallel: number) => post<Verdict>(at("check"), { document, parallel });
export const running = () => get<Working>(at("run"));
export const start = (document: Doc, order: Order) => post<Working>(at("run/start"), { document, ...order });
export const steer = (what: "pause" | "resume" | "step" | "stop") => post<Working>(at(`run/${what}`));
export const shed = (shares: Record<string, number>) => put<Working>(at("run/shed"), { shares });
export const tuples = (kind: "arc" | "end", name: string) => get<Tuples>(at("run/tuples", { kind, name }));
