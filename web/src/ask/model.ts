// The API of queries, and what follows from a result without a page.
import { get, post } from "../shared/api";

export interface Table {
  name: string;
  kind: "output" | "cuboid";
  columns: string[];
}
export interface Result {
  columns: string[];
  rows: unknown[][];
  is_cut: boolean;
  batch: number;
  seconds: number;
  paths: number[][][];
  path_rows: number[];
}

export const tables = (job: string) => get<Table[]>(`/api/ask/tables?${new URLSearchParams({ job })}`);
export const query = (job: string, sql: string, id: string) => post<Result>("/api/ask/query", { job, sql, id });
export const cancel = (id: string) => post<{ id: string }>("/api/ask/cancel", { id });

/** The columns whose values are numbers, or nothing. */
export function numeric(result: Result): number[] {
  return result.columns.map((_, k) => k).filter((k) => result.rows.some((row) => typeof row[k] === "number") && result.rows.every((row) => row[k] === null || typeof row[k] === "number"));
}

/** A chart of a result: the first number is the horizontal axis if its values differ, else the number of the row. */
export function charted(result: Result): { x: number[]; label: string; labels: string[]; values: (number | null)[][] } | undefined {
  const columns = numeric(result);
  const [first, ...rest] = columns;
  if (first === undefined || result.rows.length < 2) return undefined;
  const own = rest.length > 0 && new Set(result.rows.map((row) => row[first])).size === result.rows.length && result.rows.every((row) => row[first] !== null);
  const order = own ? [...result.rows].sort((a, b) => Number(a[first]) - Number(b[first])) : result.rows;
  const shown = (own ? rest : columns).slice(0, 5);
  return {
    x: order.map((row, i) => (own ? Number(row[first]) : i + 1)),
    label: own ? (result.columns[first] ?? "") : "row",
    labels: shown.map((k) => result.columns[k] ?? ""),
    values: shown.map((k) => order.map((row) => row[k] as number | null)),
  };
}

const PAIRS: readonly (readonly [RegExp, RegExp])[] = [
  [/^(lon|lng|longitude)$/i, /^(lat|latitude)$/i],
  [/^x$/i, /^y$/i],
  [/(^|_)lon$/i, /(^|_)lat$/i],
];

export interface Drawing {
  /** x0, y0, x1, y1, ... */
  lines: number[][];
  points: [number, number][];
  /** degrees, whose width depends on the latitude */
  isDegrees: boolean;
}

/** What can be drawn on a map: moving points, or two columns that are a place. */
export function drawn(result: Result): Drawing | undefined {
  const lines = result.paths.flat().filter((part) => part.length >= 4);
  const stops = result.paths.flat().filter((part) => part.length === 2) as [number, number][];
  if (lines.length || stops.length) return { lines, points: stops, isDegrees: false };
  for (const [east, north] of PAIRS) {
    const [x, y] = [result.columns.findIndex((name) => east.test(name)), result.columns.findIndex((name) => north.test(name))];
    if (x < 0 || y < 0) continue;
    const points = result.rows.map((row) => [row[x], row[y]]).filter((one): one is [number, number] => one.every((part) => typeof part === "number"));
    if (points.length) return { lines: [], points, isDegrees: !/^x$/i.test(result.columns[x] ?? "") };
  }
  return undefined;
}

/** A query to begin with. */
export function example(table: Table): string {
  const columns = table.columns.slice(0, 4).join(", ") || "*";
  return table.kind === "cuboid" ? `SELECT count(*) FROM ${table.name}` : `SELECT ${columns}\nFROM ${table.name}\nLIMIT 100`;
}

/** The names that complete what is typed before the cursor. */
export function completions(text: string, names: readonly string[]): string[] {
  const word = /[A-Za-z_]\w*$/.exec(text)?.[0] ?? "";
  if (word.length < 1) return [];
  return names.filter((name) => name.toLowerCase().startsWith(word.toLowerCase()) && name !== word).slice(0, 8);
}

const KEY = "slipstream-queries";
export interface Saved {
  job: string;
  sql: string;
}
export function saved(): Saved[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? (found as Saved[]).filter((one) => typeof one?.job === "string" && typeof one.sql === "string") : [];
  } catch {
    return [];
  }
}
export function remember(one: Saved): Saved[] {
  const next = [one, ...saved().filter((other) => other.job !== one.job || other.sql !== one.sql)].slice(0, 20);
  localStorage.setItem(KEY, JSON.stringify(next));
  return next;
}
