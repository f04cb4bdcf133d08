// What is selected as a file: CSV, or GeoJSON with times, which this page and kepler.gl read.
import { pickRows, type Table } from "./tracks";

const RADIUS = 6_378_137;
const degrees = (radians: number): number => (radians * 180) / Math.PI;
const digits = (value: number): number => Math.round(value * 1e7) / 1e7;

/** The longitude and latitude of a place in Web Mercator. */
export const locate = (x: number, y: number): [number, number] => [digits(degrees(x / RADIUS)), digits(degrees(2 * Math.atan(Math.exp(y / RADIUS)) - Math.PI / 2))];

export interface Wanted {
  pass: Uint8Array | undefined;
  /** west, south, east, north in the plane */
  area: readonly number[] | undefined;
  owner: string | undefined;
}

/** The positions that the filter leaves, in the area, of the owner. */
export function select(table: Table, { pass, area, owner }: Wanted): Table {
  if (!pass && !area && owner === undefined) return table;
  const [ox, oy] = table.origin;
  const [x0, y0, x1, y1] = area ?? [-Infinity, -Infinity, Infinity, Infinity];
  const inside = (i: number) => {
    const [x, y] = [(table.x[i] ?? 0) + ox, (table.y[i] ?? 0) + oy];
    return x >= (x0 ?? 0) && y >= (y0 ?? 0) && x <= (x1 ?? 0) && y <= (y1 ?? 0);
  };
  const rows = new Uint8Array(table.t.length);
  for (let k = 0; k + 1 < table.rows.length; k++) {
    if (owner !== undefined && table.owners[table.owner[k] ?? -1] !== owner) continue;
    for (let i = table.rows[k] ?? 0; i < (table.rows[k + 1] ?? 0); i++) rows[i] = Number((!pass || pass[i] === 1) && inside(i));
  }
  return pickRows(table, (i) => rows[i] === 1);
}

const place = (table: Table, i: number): [number, number] => {
  const [x, y] = [(table.x[i] ?? 0) + table.origin[0], (table.y[i] ?? 0) + table.origin[1]];
  return table.world === "earth" ? locate(x, y) : [Math.round(x * 100) / 100, Math.round(y * 100) / 100];
};
const quote = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const milliseconds = (seconds: number): number => Math.round(seconds * 1000) / 1000;

export function toCsv(table: Table): string {
  const [x, y] = table.world === "earth" ? ["lon", "lat"] : ["x", "y"];
  const lines = [["id", ...(table.timed ? ["time"] : []), x, y, ...table.attributes.map((one) => quote(one.name))].join(",")];
  for (let k = 0; k + 1 < table.rows.length; k++) {
    const name = quote(table.owners[table.owner[k] ?? -1] ?? "");
    for (let i = table.rows[k] ?? 0; i < (table.rows[k + 1] ?? 0); i++) {
      const values = table.attributes.map((one) => {
        const value = one.values[i] ?? NaN;
        return Number.isNaN(value) ? "" : one.texts.length ? quote(one.texts[value] ?? "") : String(Number(value.toPrecision(7)));
      });
      lines.push([name, ...(table.timed ? [milliseconds(table.t[i] ?? 0)] : []), ...place(table, i), ...values].join(","));
    }
  }
  return `${lines.join("\n")}\n`;
}

/** A line per track whose positions are [lon, lat, 0, seconds]. */
export function toGeoJson(table: Table): string {
  const features = [...table.owner].map((one, k) => {
    const coordinates = Array.from({ length: (table.rows[k + 1] ?? 0) - (table.rows[k] ?? 0) }, (_, n) => {
      const i = (table.rows[k] ?? 0) + n;
      return table.timed ? [...place(table, i), 0, milliseconds(table.t[i] ?? 0)] : place(table, i);
    });
    // a line has two places at least
    const geometry = coordinates.length === 1 ? { type: "Point", coordinates: coordinates[0] } : { type: "LineString", coordinates };
    return { type: "Feature", properties: { id: table.owners[one] ?? `${k + 1}` }, geometry };
  });
  return JSON.stringify({ type: "FeatureCollection", features });
}
