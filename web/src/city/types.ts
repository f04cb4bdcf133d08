// Types of the live city API; the names are those of /openapi.json.

import type { Status } from "../shared/status";

export interface Response {
  p50: number;
  p99: number;
  most: number;
}

export interface KindHealth {
  kind: string;
  limit: number;
  answers: number;
  recent: Response | null;
  whole: Response | null;
}

export interface Health {
  arrival_rate: number | null;
  interarrival: number | null;
  commit: number | null;
  capacity: number | null;
  stable: boolean | null;
  lag: number | null;
  kinds: KindHealth[];
}

export interface View {
  follow: boolean;
  second: number;
  playing: boolean;
  speed: number;
}

export interface Accident {
  xway: number;
  dir: 0 | 1;
  seg: number;
}

export interface State {
  status: Status;
  run: string;
  result: string;
  error: string;
  speed: number;
  rules: string;
  seconds: number;
  committed: number;
  shown: number;
  age: number | null;
  view: View;
  xways: number[];
  cars: number;
  mean_speed: number | null;
  accidents: Accident[];
  health: Health;
}

export interface Beat {
  batch: number;
  second: number;
  seconds: number;
  tuples: number | null;
  answers: number;
  rejects: number;
  commit: number | null;
  budget: number | null;
  lag: number | null;
  responses: (Response | null)[];
}

export interface RunEntry {
  name: string;
  expressways: number;
  seconds: number;
  tuples: number;
  accidents: number;
}

export interface Choices {
  runs: RunEntry[];
  results: string[];
  broken: string[];
}

/** The map: one value per (expressway, direction, segment). */
export interface Grid {
  second: number;
  xways: number[];
  speed: Uint8Array;
  cars: Uint16Array;
  toll: Uint32Array;
  accident: Uint8Array;
}

export interface Cars {
  second: number;
  xway: number;
  vid: number[];
  time: number[];
  pos: number[];
  spd: number[];
  lane: number[];
  dir: number[];
}

export interface Report {
  time: number;
  xway: number;
  dir: 0 | 1;
  lane: number;
  seg: number;
  pos: number;
  spd: number;
}

export interface Notice {
  time: number;
  xway: number;
  dir: 0 | 1;
  seg: number;
  toll: number;
  lav: number;
  alert: number | null;
  charged: boolean;
}

export interface Vehicle {
  vid: number;
  second: number;
  on_the_road: boolean;
  last: Report;
  trips: number;
  since: number;
  entered: number;
  exit: number | null;
  notices: Notice[];
  balance: number | null;
  balance_from: "snapshot" | "answers" | "nowhere";
}

export interface SegmentMinute {
  minute: number;
  cars: number;
  speed: number | null;
  lav: number | null;
  toll: number | null;
  accident: boolean;
}

export interface Place {
  xway: number;
  dir: 0 | 1;
  seg: number;
}

export const NOBODY = 255;
export const SEGMENTS = 100;
export const MILE = 5280;
export const HEADING = ["east", "west"] as const;
