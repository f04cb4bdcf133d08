// The map API, and files that are dropped on the page.
import { bytes, Problem } from "../shared/api";
import { floats, header, ints, unpack } from "../shared/arrays";
import { readTable, type Table } from "./tracks";

export interface Layer {
  name: string;
  kind: "positions" | "trips" | "cuboid";
  time: string;
  id: string;
  attributes: string[];
}
export interface Choices {
  jobs: { name: string; layers: Layer[] }[];
  roads: string[];
  tiles: string;
}
export interface Zone {
  name: string;
  rings: [number, number][][];
}
export interface Setting {
  world: "earth" | "plane";
  zones: Zone[];
  roads: string;
  has_segments: boolean;
}
/** Values of edges as of a batch; null where there is none. */
export interface RoadValues {
  batch: number;
  edges: number[];
  values: Record<string, (number | null)[]>;
}
/** Streets: line k has the corners `offsets[k]` to `offsets[k + 1]`; `edge` and `reverse` are its numbers in either direction. */
export interface Roads {
  world: "earth" | "plane";
  origin: [number, number];
  offsets: Int32Array;
  x: Float32Array;
  y: Float32Array;
  kind: Int32Array;
  edge: Int32Array;
  reverse: Int32Array;
}

const at = (path: string, query: Record<string, string | number> = {}) =>
  `/api/map${path}?${new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]))}`;

export const choices = "/api/map";
export const segments = (job: string): string => at("/segments", { job });
export const setting = (job: string): string => at("/setting", { job });

export async function positions(job: string, layer: string, crs: string, after: number): Promise<Table> {
  return readTable(await bytes(at("/positions", { job, layer, crs, after })));
}

export async function roads(name: string): Promise<Roads> {
  const buffer = await bytes(at("/roads", { roads: name }));
  const [head, offsets, x, y, kind, edge, reverse] = unpack(buffer);
  return { ...header<{ world: "earth" | "plane"; origin: [number, number] }>(buffer, head), offsets: ints(buffer, offsets), x: floats(buffer, x), y: floats(buffer, y), kind: ints(buffer, kind), edge: ints(buffer, edge), reverse: ints(buffer, reverse) };
}

/** The largest file that the server takes. */
const LARGEST = 64 * 2 ** 20;

export async function drop(file: File, crs: string): Promise<Table> {
  if (file.size > LARGEST) throw new Problem(413, `${file.name} has ${Math.round(file.size / 1e6)} MB.`, `The map takes files of up to ${Math.round(LARGEST / 1e6)} MB.`);
  return readTable(await bytes(at("/file", { name: file.name, crs }), { method: "POST", headers: { "content-type": "application/octet-stream", "x-slipstream": "1" }, body: file }));
}

