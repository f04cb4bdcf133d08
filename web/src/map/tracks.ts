// Positions as tracks, without a page: where everything is at an instant, what a filter leaves, what new rows change.
import { floats, header, ints, unpack } from "../shared/arrays";
import type { Box } from "../shared/view";

export interface Attribute {
  name: string;
  /** what the values are numbers of; empty for numbers */
  texts: string[];
  values: Float32Array;
}

/** Rows of a table: positions `rows[k]` to `rows[k + 1]` of track k, in the order of time; places are metres from `origin`. */
export interface Table {
  batch: number;
  isCut: boolean;
  world: "earth" | "plane";
  timed: boolean;
  unplaced: number;
  origin: [number, number];
  owners: string[];
  owner: Int32Array;
  rows: Int32Array;
  /** seconds */
  t: Float64Array;
  x: Float32Array;
  y: Float32Array;
  attributes: Attribute[];
}

interface Header {
  batch: number;
  is_cut: boolean;
  begin: number;
  tick: number;
  origin: [number, number];
  world: "earth" | "plane";
  timed: boolean;
  unplaced: number;
  owners: string[];
  attributes: { name: string; texts: string[] }[];
}

export function readTable(buffer: ArrayBuffer): Table {
  const [head, rows, owner, ticks, x, y, ...values] = unpack(buffer);
  const { begin, tick, is_cut, attributes, ...rest } = header<Header>(buffer, head);
  return {
    ...rest,
    isCut: is_cut,
    owner: ints(buffer, owner),
    rows: ints(buffer, rows),
    t: Float64Array.from(ints(buffer, ticks), (n) => begin + n * tick),
    x: floats(buffer, x),
    y: floats(buffer, y),
    attributes: attributes.map((one, k) => ({ ...one, values: floats(buffer, values[k]) })),
  };
}

/** A filter on one attribute: a range of numbers, or some of its texts. */
export interface Filter {
  name: string;
  low?: number | undefined;
  high?: number | undefined;
  texts?: string[] | undefined;
}

/** `speed:20..50`, `speed:20..`, `kind:bus|car`; undefined if it is neither. */
export function parseFilter(text: string | undefined): Filter | undefined {
  const at = text?.indexOf(":") ?? -1;
  if (!text || at <= 0) return undefined;
  const [name, rest] = [text.slice(0, at), text.slice(at + 1)];
  const range = /^(-?[\d.]*(?:e[+-]?\d+)?)\.\.(-?[\d.]*(?:e[+-]?\d+)?)$/.exec(rest);
  if (!range) return { name, texts: rest.split("|") };
  const [low, high] = [range[1], range[2]].map((one) => (one === "" ? undefined : Number(one)));
  return Number.isNaN(low) || Number.isNaN(high) ? undefined : { name, low, high };
}

export function formatFilter(filter: Filter | undefined): string | undefined {
  if (!filter) return undefined;
  return `${filter.name}:${filter.texts ? filter.texts.join("|") : `${filter.low ?? ""}..${filter.high ?? ""}`}`;
}

/** Which positions a filter leaves; undefined if all. */
export function passing(table: Table, filter: Filter | undefined): Uint8Array | undefined {
  const found = filter && table.attributes.find((one) => one.name === filter.name);
  if (!filter || !found) return undefined;
  const wanted = filter.texts && new Set(filter.texts.map((text) => found.texts.indexOf(text)));
  const [low, high] = [filter.low ?? -Infinity, filter.high ?? Infinity];
  return Uint8Array.from(found.values, (value) => Number(wanted ? wanted.has(value) : value >= low && value <= high));
}

/** The counts of positions in equal parts of the time. */
export function histogram(table: Table, pass: Uint8Array | undefined, begin: number, end: number, bins: number): Uint32Array {
  const counts = new Uint32Array(bins);
  const width = Math.max(1e-9, end - begin) / bins;
  for (let i = 0; i < table.t.length; i++) {
    if (pass && !pass[i]) continue;
    const bin = Math.floor(((table.t[i] ?? 0) - begin) / width);
    if (bin >= 0 && bin <= bins) counts[Math.min(bins - 1, bin)] = (counts[Math.min(bins - 1, bin)] ?? 0) + 1;
  }
  return counts;
}

/** The middle of the intervals between positions, of a sample. */
function usualInterval(table: Table): number {
  const found: number[] = [];
  const step = Math.max(1, Math.floor(table.t.length / 10000));
  for (let k = 0; k + 1 < table.rows.length; k++) {
    const [first, last] = [table.rows[k] ?? 0, table.rows[k + 1] ?? 0];
    for (let i = first + 1; i < last; i += step) found.push((table.t[i] ?? 0) - (table.t[i - 1] ?? 0));
    if (found.length > 20000) break;
  }
  return found.sort((a, b) => a - b)[Math.floor(found.length / 2)] ?? 0;
}

const MOST_BINS = 180;

/** Tracks, and where each is at the instant that was asked for last. */
export class Tracks {
  readonly begin: number;
  readonly end: number;
  /** how many parts of the time a histogram has at most: none so short that no position falls into it */
  readonly bins: number;
  /** seconds after which something that is silent is not shown any more */
  readonly hold: number;
  /** of each track: where it is, its last position so far, and whether it is anywhere */
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly at: Int32Array;
  readonly shown: Uint8Array;

  constructor(readonly table: Table) {
    let [begin, end] = [Infinity, -Infinity];
    for (const t of table.t) [begin, end] = [Math.min(begin, t), Math.max(end, t)];
    [this.begin, this.end] = begin <= end ? [begin, end] : [0, 0];
    const interval = usualInterval(table);
    this.hold = Math.min(900, Math.max(10, 5 * interval));
    this.bins = interval > 0 ? Math.max(1, Math.min(MOST_BINS, Math.floor((this.end - this.begin) / interval) + 1)) : MOST_BINS;
    const many = table.owner.length;
    [this.x, this.y] = [new Float32Array(many), new Float32Array(many)];
    this.at = Int32Array.from(table.rows.subarray(0, many));
    this.shown = new Uint8Array(many);
  }

  get count(): number {
    return this.table.owner.length;
  }

  /** What the tracks are in; a point if there are none. */
  get box(): Box {
    const { x, y, origin } = this.table;
    const box: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      const [a, b] = [x[i] ?? 0, y[i] ?? 0];
      if (a < box[0]) box[0] = a;
      if (b < box[1]) box[1] = b;
      if (a > box[2]) box[2] = a;
      if (b > box[3]) box[3] = b;
    }
    if (!x.length) return [0, 0, 0, 0];
    return [box[0] + origin[0], box[1] + origin[1], box[2] + origin[0], box[3] + origin[1]];
  }

  /** The name of a track's owner; the number of the track if it has none. */
  name(track: number): string {
    return this.table.owners[this.table.owner[track] ?? -1] ?? `${track + 1}`;
  }

  /** Find where everything is at an instant; returns how many are anywhere. */
  look(time: number, pass: Uint8Array | undefined): number {
    const { rows, t, x, y, timed } = this.table;
    let many = 0;
    for (let k = 0; k < this.at.length; k++) {
      const [first, last] = [rows[k] ?? 0, (rows[k + 1] ?? 0) - 1];
      this.shown[k] = 0;
      if (last < first || (timed && (time < (t[first] ?? 0) || time > (t[last] ?? 0) + this.hold))) continue;
      const here = timed ? this.find(k, first, last, time) : first;
      this.at[k] = here;
      if (pass && !pass[here]) continue;
      const span = here < last ? (t[here + 1] ?? 0) - (t[here] ?? 0) : 0;
      const passed = time - (t[here] ?? 0);
      // nobody knows the way through a long silence
      if (span > this.hold && passed > this.hold) continue;
      const share = timed && span > 0 && span <= this.hold ? passed / span : 0;
      this.x[k] = (x[here] ?? 0) + share * ((x[here + 1] ?? 0) - (x[here] ?? 0));
      this.y[k] = (y[here] ?? 0) + share * ((y[here + 1] ?? 0) - (y[here] ?? 0));
      this.shown[k] = 1;
      many++;
    }
    return many;
  }

  /** The last position of a track until a time: from where it was, as time usually goes on a little. */
  private find(track: number, first: number, last: number, time: number): number {
    const { t } = this.table;
    let here = this.at[track] ?? first;
    if (here < first || here > last || (t[here] ?? 0) > time) here = first;
    for (let steps = 0; steps < 4; steps++) {
      if (here >= last || (t[here + 1] ?? 0) > time) return here;
      here++;
    }
    let [low, high] = [here, last];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((t[middle] ?? 0) <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The track that is nearest to a place of the plane and not farther than `far`; the first of an owner otherwise. */
  nearest(px: number, py: number, far: number): number | undefined {
    const [ox, oy] = this.table.origin;
    let [best, distance] = [-1, far];
    for (let k = 0; k < this.at.length; k++) {
      if (!this.shown[k]) continue;
      const d = Math.hypot((this.x[k] ?? 0) + ox - px, (this.y[k] ?? 0) + oy - py);
      if (d < distance) [best, distance] = [k, d];
    }
    return best < 0 ? undefined : best;
  }
}

/** The oldest positions that do not fit are left out. */
const MOST = 2_000_000;

/** Both tables as one; `next` has what was committed since. */
export function merge(old: Table, next: Table): Table {
  if (next.t.length === 0) return { ...old, batch: next.batch };
  const owners = [...old.owners];
  const numbers = new Map(owners.map((name, k) => [name, k]));
  const numberOf = next.owners.map((name) => {
    const known = numbers.get(name);
    if (known !== undefined) return known;
    numbers.set(name, owners.length);
    return owners.push(name) - 1;
  });
  // without owners each position is a track of its own
  const named = next.owners.length > 0;
  const trackOf = new Map<number, number>();
  if (named) old.owner.forEach((one, k) => trackOf.set(one, k));
  const parts: [number, number][] = [...old.owner].map((_, k) => [k, -1]);
  const owner = [...old.owner];
  next.owner.forEach((one, k) => {
    const whose = named ? (numberOf[one] ?? 0) : 0;
    const track = named ? trackOf.get(whose) : undefined;
    const mine = track === undefined ? undefined : parts[track];
    if (mine && mine[1] < 0) mine[1] = k;
    else {
      parts.push([-1, k]);
      owner.push(whose);
    }
  });
  return join(old, next, parts, owner, owners);
}

function join(old: Table, next: Table, parts: [number, number][], owner: number[], owners: string[]): Table {
  const size = (table: Table, k: number) => (k < 0 ? 0 : (table.rows[k + 1] ?? 0) - (table.rows[k] ?? 0));
  const rows = new Int32Array(parts.length + 1);
  parts.forEach(([a, b], k) => (rows[k + 1] = (rows[k] ?? 0) + size(old, a) + size(next, b)));
  const total = rows[parts.length] ?? 0;
  const from = (take: (table: Table) => ArrayLike<number>, into: Float32Array | Float64Array, shift = 0) => {
    const [first, second] = [take(old), take(next)];
    parts.forEach(([a, b], k) => {
      let at = rows[k] ?? 0;
      for (let i = 0, n = size(old, a); i < n; i++) into[at++] = first[(old.rows[a] ?? 0) + i] ?? NaN;
      for (let i = 0, n = size(next, b); i < n; i++) into[at++] = (second[(next.rows[b] ?? 0) + i] ?? NaN) + shift;
    });
    return into;
  };
  const joined: Table = {
    ...old,
    batch: next.batch,
    unplaced: old.unplaced + next.unplaced,
    owners,
    owner: Int32Array.from(owner),
    rows,
    t: from((one) => one.t, new Float64Array(total)) as Float64Array,
    x: from((one) => one.x, new Float32Array(total), next.origin[0] - old.origin[0]) as Float32Array,
    y: from((one) => one.y, new Float32Array(total), next.origin[1] - old.origin[1]) as Float32Array,
    attributes: old.attributes.map((one) => ({ ...one, ...joinAttribute(one, next, (take, into) => from(take, into) as Float32Array, total) })),
  };
  return keepNewest(sortTracks(joined), MOST);
}

/** Texts that are new get numbers of their own. */
function joinAttribute(one: Attribute, next: Table, from: (take: (table: Table) => ArrayLike<number>, into: Float32Array) => Float32Array, total: number): Pick<Attribute, "texts" | "values"> {
  const found = next.attributes.find((other) => other.name === one.name);
  const texts = [...new Set([...one.texts, ...(found?.texts ?? [])])];
  const values = found?.texts.length ? Float32Array.from(found.values, (code) => texts.indexOf(found.texts[code] ?? "")) : found?.values;
  return { texts, values: from((table) => (table === next ? (values ?? new Float32Array(0)) : one.values), new Float32Array(total)) };
}

/** Positions that arrived late are put where they belong. */
function sortTracks(table: Table): Table {
  for (let k = 0; k + 1 < table.rows.length; k++) {
    const [first, last] = [table.rows[k] ?? 0, table.rows[k + 1] ?? 0];
    let sorted = true;
    for (let i = first + 1; i < last && sorted; i++) sorted = (table.t[i - 1] ?? 0) <= (table.t[i] ?? 0);
    if (sorted) continue;
    const order = Array.from({ length: last - first }, (_, i) => first + i).sort((a, b) => (table.t[a] ?? 0) - (table.t[b] ?? 0));
    for (const array of [table.t, table.x, table.y, ...table.attributes.map((one) => one.values)]) {
      const copy = order.map((i) => array[i] ?? NaN);
      copy.forEach((value, i) => (array[first + i] = value));
    }
  }
  return table;
}

/** The newest positions of a table, at most `most`. */
export function keepNewest(table: Table, most: number): Table {
  if (table.t.length <= most) return table;
  const since = Float64Array.from(table.t).sort()[table.t.length - most] ?? -Infinity;
  return { ...pickRows(table, (i) => (table.t[i] ?? 0) >= since), isCut: true };
}

/** Some rows of a table; tracks without any are left out. */
export function pickRows(table: Table, wanted: (row: number) => boolean): Table {
  const kept: number[] = [];
  const [owner, rows] = [[] as number[], [0]];
  for (let k = 0; k + 1 < table.rows.length; k++) {
    const before = kept.length;
    for (let i = table.rows[k] ?? 0; i < (table.rows[k + 1] ?? 0); i++) if (wanted(i)) kept.push(i);
    if (kept.length === before) continue;
    owner.push(table.owner[k] ?? 0);
    rows.push(kept.length);
  }
  const take = (array: Float32Array) => Float32Array.from(kept, (i) => array[i] ?? NaN);
  return {
    ...table,
    owner: Int32Array.from(owner),
    rows: Int32Array.from(rows),
    t: Float64Array.from(kept, (i) => table.t[i] ?? NaN),
    x: take(table.x),
    y: take(table.y),
    attributes: table.attributes.map((one) => ({ ...one, values: take(one.values) })),
  };
}
