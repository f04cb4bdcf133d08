// The trajectories API, and the movement of all vehicles in chunks of time.
import { bytes, get, post, type Problem } from "../shared/api";
import { floats, ints, unpack } from "../shared/arrays";

export interface Vehicle {
  licence: string;
  model: string;
  type: string;
}
export interface FoundAnswer {
  query: number;
  title: string;
  rows: Record<string, number>;
}
export interface DataSet {
  name: string;
  begin: number;
  end: number;
  box: [number, number, number, number];
  trips: number;
  units: number;
  has_streets: boolean;
  vehicles: Vehicle[];
  answers: FoundAnswer[];
}
export interface Drive {
  begin: number;
  end: number;
  metres: number;
  fastest: number;
}
export type Line = [number, number][];
export interface History {
  vehicle: Vehicle;
  metres: number;
  drives: Drive[];
  lines: Line[];
}
export interface Stay {
  vehicle: number;
  seconds: number;
  first: number;
  last: number;
  visits: number;
}
export interface Answer {
  title: string;
  total: number;
  columns: string[];
  rows: unknown[][];
  points: Line;
  lines: Line[];
  licences: string[];
}
export interface Streets {
  offsets: Int32Array;
  x: Float32Array;
  y: Float32Array;
  speed: Float32Array;
}
/** Sequences of vertices with linear movement in between; times are seconds after `begin`. */
export interface Movement {
  begin: number;
  seconds: number;
  offsets: Int32Array;
  vehicle: Int32Array;
  t: Float32Array;
  x: Float32Array;
  y: Float32Array;
}

const at = (path: string, query: Record<string, string | number> = {}) =>
  `/api/trajectories${path}?${new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]))}`;

/** URLs that depend on the selection. */
export const dataSets = at("");
export const dataSet = (data: string): string => at("/data", { data });
export const history = (data: string, number: number): string => at("/vehicle", { data, number });

export const who = (data: string, region: Line, begin: number, end: number) => post<{ stays: Stay[] }>(at("/who"), { data, region, begin, seconds: end - begin });
export const answer = (data: string, query: number, representation: string) => get<Answer>(at("/answer", { data, query, representation }));

export async function streets(data: string): Promise<Streets> {
  const buffer = await bytes(at("/streets", { data }));
  const parts = unpack(buffer);
  return { offsets: ints(buffer, parts[0]), x: floats(buffer, parts[1]), y: floats(buffer, parts[2]), speed: floats(buffer, parts[3]) };
}

async function movement(data: string, begin: number, seconds: number): Promise<Movement> {
  const buffer = await bytes(at("/movement", { data, begin, seconds }));
  const parts = unpack(buffer);
  return { begin, seconds, offsets: ints(buffer, parts[0]), vehicle: ints(buffer, parts[1]), t: floats(buffer, parts[2]), x: floats(buffer, parts[3]), y: floats(buffer, parts[4]) };
}

/** Chunks of movement, loaded on demand: an hour each, the next one ahead of time. */
export class Film {
  static readonly PIECE = 3600;
  private static readonly AGAIN = 2000;
  private pieces = new Map<number, Movement | "coming">();
  constructor(
    private data: string,
    private onProblem: (problem: Problem | undefined) => void,
  ) {}

  /** The movement around an instant, if it is loaded. */
  at(time: number): Movement | undefined {
    const number = Math.floor(time / Film.PIECE);
    this.want(number);
    this.want(number + 1);
    const piece = this.pieces.get(number);
    return piece === "coming" ? undefined : piece;
  }

  private want(number: number): void {
    if (this.pieces.has(number)) return;
    this.pieces.set(number, "coming");
    movement(this.data, number * Film.PIECE, Film.PIECE)
      .then((piece) => {
        this.pieces.set(number, piece);
        // drop old chunks
        if (this.pieces.size > 30) for (const key of [...this.pieces.keys()].slice(0, 10)) if (Math.abs(key - number) > 2) this.pieces.delete(key);
        this.onProblem(undefined);
      })
      .catch((problem: Problem) => {
        this.onProblem(problem);
        // the map calls this every frame; a lost server is retried only now and then
        window.setTimeout(() => this.pieces.delete(number), Film.AGAIN);
      });
  }
}

/** The positions of all vehicles at an instant; NaN if undefined. */
export class Places {
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly moving: Uint8Array;
  /** the current sequence of each, and its last vertex */
  readonly sequence: Int32Array;
  readonly vertex: Int32Array;

  constructor(vehicles: number) {
    [this.x, this.y] = [new Float32Array(vehicles).fill(NaN), new Float32Array(vehicles)];
    this.moving = new Uint8Array(vehicles);
    [this.sequence, this.vertex] = [new Int32Array(vehicles), new Int32Array(vehicles)];
  }

  look(film: Movement, time: number): void {
    this.x.fill(NaN);
    this.moving.fill(0);
    const t = time - film.begin;
    for (let s = 0; s < film.vehicle.length; s++) {
      const [first, last] = [film.offsets[s] ?? 0, (film.offsets[s + 1] ?? 0) - 1];
      if (last < first || t < (film.t[first] ?? 0) || t > (film.t[last] ?? 0)) continue;
      let [low, high] = [first, last];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if ((film.t[middle] ?? 0) <= t) low = middle;
        else high = middle - 1;
      }
      const next = Math.min(low + 1, last);
      const span = (film.t[next] ?? 0) - (film.t[low] ?? 0);
      const share = span > 0 ? (t - (film.t[low] ?? 0)) / span : 0;
      const who_ = film.vehicle[s] ?? 0;
      const [dx, dy] = [(film.x[next] ?? 0) - (film.x[low] ?? 0), (film.y[next] ?? 0) - (film.y[low] ?? 0)];
      this.x[who_] = (film.x[low] ?? 0) + share * dx;
      this.y[who_] = (film.y[low] ?? 0) + share * dy;
      this.moving[who_] = dx !== 0 || dy !== 0 ? 1 : 0;
      [this.sequence[who_], this.vertex[who_]] = [s, low];
    }
  }
}

export const forInput = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 19);
export const fromInput = (text: string): number => Date.parse(`${text}Z`) / 1000;
export const kilometres = (metres: number): string => `${(metres / 1000).toFixed(metres < 10000 ? 2 : 1)} km`;
export function lasting(seconds: number): string {
  const s = Math.round(seconds);
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}
