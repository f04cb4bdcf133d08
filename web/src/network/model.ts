// A network as data: the fields of the network file, and the edits that drawing makes to them.

export type Columns = Record<string, string>;
export type Points = [number, number][];

export interface Order {
  on: string;
  slack?: number;
  group_by?: string[];
}

/** A box: its own field names it, the others are its arguments. */
export interface Box {
  filter?: string[];
  map?: Columns;
  union?: true;
  bsort?: true;
  aggregate?: Columns;
  join?: string;
  resample?: Columns;
  latest?: string[];
  running?: Columns;
  order?: Order;
  left?: Order;
  right?: Order;
  size?: number;
  advance?: number;
  timeout?: number;
  lag?: number;
  /** of an aggregate: the arc that says how far the order has come */
  clock?: string;
  /** of a join with a stored table: tuples without a match stay */
  outer?: boolean;
  /** of a latest box: only what arrived earlier */
  before?: boolean;
  group_by?: string[];
  from: string | string[];
  group?: string;
  note?: string;
}

export interface Output {
  from: string;
  delay?: Points;
  drop?: Points;
  value?: { column: string; graph: Points };
  view?: boolean;
  keep_seconds?: number;
  keep_tuples?: number;
}

export interface Point {
  from: string;
  keep_seconds?: number;
  keep_tuples?: number;
  key?: string;
}

export interface Doc {
  network: string;
  version: 1;
  note?: string;
  sources: Record<string, Columns>;
  tables?: Record<string, Columns>;
  boxes: Record<string, Box>;
  outputs: Record<string, Output>;
  points?: Record<string, Point>;
}

export const KINDS = ["filter", "map", "union", "bsort", "aggregate", "join", "resample", "latest", "running"] as const;
export type Kind = (typeof KINDS)[number];
export type Part = "sources" | "tables" | "boxes" | "outputs" | "points";
/** What the palette offers. */
export type Piece = Kind | "source" | "table" | "output" | "point";

export const TITLES: Record<Piece, [string, string]> = {
  filter: ["Filter", "routes tuples by predicates"],
  map: ["Map", "new columns from expressions"],
  union: ["Union", "merges streams of one schema"],
  bsort: ["BSort", "sorts what comes late"],
  aggregate: ["Aggregate", "functions over windows"],
  join: ["Join", "pairs tuples of two streams"],
  resample: ["Resample", "one stream at the moments of another"],
  latest: ["Latest", "each tuple beside the newest of another stream"],
  running: ["Running", "totals of everything so far"],
  source: ["Source", "a stream from outside"],
  table: ["Table", "a stored table to join with"],
  output: ["Output", "a stream that leaves, and its worth"],
  point: ["Connection point", "an arc with a memory"],
};

export const EMPTY: Doc = { network: "untitled", version: 1, sources: {}, boxes: {}, outputs: {} };

export const kindOf = (box: Box): Kind => KINDS.find((kind) => kind in box) ?? "filter";
export const split = (id: string): [Part, string] => {
  const dot = id.indexOf(".");
  return [id.slice(0, dot) as Part, id.slice(dot + 1)];
};
export const originOf = (arc: string): string => arc.split(".")[0] ?? "";
export const portOf = (arc: string): number => Number(arc.split(".")[1] ?? 0);
export const arcOf = (origin: string, port: number): string => (port ? `${origin}.${port}` : origin);

/** The place id of whatever an arc starts from. */
export function placeOf(doc: Doc, origin: string): string | undefined {
  for (const part of ["sources", "tables", "boxes"] as const) if (doc[part]?.[origin]) return `${part}.${origin}`;
  return undefined;
}

/** How many outputs a place has. */
export const ports = (doc: Doc, origin: string): number => (doc.boxes[origin]?.filter?.length ?? 0) + 1;

/** Inputs in their order; "" where nothing is connected yet. */
export function inputsOf(doc: Doc, id: string): string[] {
  const [part, name] = split(id);
  if (part === "outputs" || part === "points") return [doc[part]?.[name]?.from ?? ""];
  const box = doc.boxes[name];
  if (part !== "boxes" || !box) return [];
  const taken = Array.isArray(box.from) ? box.from : [box.from];
  const arcs = box.clock === undefined ? taken : [taken[0] ?? "", box.clock];
  if (box.union) return arcs.filter(Boolean);
  const wanted = sides(box);
  return Array.from({ length: wanted }, (_, i) => arcs[i] ?? "");
}

export const sides = (box: Box): number => (box.join !== undefined || box.resample || box.latest || box.clock !== undefined ? 2 : 1);

/** All arcs one can take tuples from. */
export function arcsOf(doc: Doc): string[] {
  const origins = [...Object.keys(doc.sources), ...Object.keys(doc.tables ?? {}), ...Object.keys(doc.boxes)];
  return origins.flatMap((origin) => Array.from({ length: ports(doc, origin) }, (_, port) => arcOf(origin, port)));
}

export function setInputs(doc: Doc, id: string, arcs: string[]): Doc {
  const [part, name] = split(id);
  const from = arcs.length === 1 ? (arcs[0] ?? "") : arcs;
  if (part === "boxes" && doc.boxes[name]?.clock !== undefined) return change(doc, id, { from: arcs[0] || [], clock: arcs[1] ?? "" });
  if (part === "boxes") return change(doc, id, { from: arcs.every((arc) => !arc) ? [] : from });
  return change(doc, id, { from: arcs[0] ?? "" }, name);
}

/** The same network with some fields of a place changed; undefined removes a field. */
export function change(doc: Doc, id: string, fields: object, as?: string): Doc {
  const [part, name] = split(id);
  const merged = Object.entries({ ...doc[part]?.[as ?? name], ...fields }).filter(([, value]) => value !== undefined);
  return { ...doc, [part]: { ...doc[part], [name]: Object.fromEntries(merged) } };
}

export function setColumns(doc: Doc, id: string, columns: Columns): Doc {
  const [part, name] = split(id);
  return { ...doc, [part]: { ...doc[part], [name]: columns } };
}

export function connect(doc: Doc, arc: string, target: string, side: number): Doc {
  const inputs = inputsOf(doc, target);
  if (doc.boxes[split(target)[1]]?.union && target.startsWith("boxes.")) {
    return inputs.includes(arc) ? doc : setInputs(doc, target, [...inputs, arc]);
  }
  inputs[side] = arc;
  return setInputs(doc, target, inputs);
}

export function disconnect(doc: Doc, target: string, side: number): Doc {
  const inputs = inputsOf(doc, target);
  const [part, name] = split(target);
  if (part === "boxes" && doc.boxes[name]?.union) return setInputs(doc, target, inputs.filter((_, i) => i !== side));
  inputs[side] = "";
  return setInputs(doc, target, inputs);
}

export const takersOf = (doc: Doc): string[] => [
  ...Object.keys(doc.boxes).map((name) => `boxes.${name}`),
  ...Object.keys(doc.outputs).map((name) => `outputs.${name}`),
  ...Object.keys(doc.points ?? {}).map((name) => `points.${name}`),
];

export const placesOf = (doc: Doc): string[] => [
  ...Object.keys(doc.sources).map((name) => `sources.${name}`),
  ...Object.keys(doc.tables ?? {}).map((name) => `tables.${name}`),
  ...takersOf(doc),
];

/** Whether an arc from `origin` into `target` would close a loop. */
export function loops(doc: Doc, origin: string, target: string): boolean {
  const [part, name] = split(target);
  if (part !== "boxes") return false;
  const seen = new Set<string>();
  const todo = [origin];
  for (let one = todo.pop(); one !== undefined; one = todo.pop()) {
    if (one === name) return true;
    if (seen.has(one) || !doc.boxes[one]) continue;
    seen.add(one);
    todo.push(...inputsOf(doc, `boxes.${one}`).map(originOf));
  }
  return false;
}

function mapArcs(doc: Doc, arc: (arc: string) => string): Doc {
  return takersOf(doc).reduce((now, id) => {
    const old = inputsOf(now, id);
    const fresh = old.map((one) => (one ? arc(one) : one));
    const box = now.boxes[split(id)[1]];
    const kept = id.startsWith("boxes.") && box?.union ? fresh.filter(Boolean) : fresh;
    return old.every((one, i) => one === fresh[i]) ? now : setInputs(now, id, kept);
  }, doc);
}

export function rename(doc: Doc, id: string, fresh: string): Doc {
  const [part, name] = split(id);
  const renamed = Object.fromEntries(Object.entries(doc[part] ?? {}).map(([key, body]) => [key === name ? fresh : key, body]));
  const next = { ...doc, [part]: renamed } as Doc;
  if (part === "outputs" || part === "points") return next;
  return mapArcs(next, (arc) => (originOf(arc) === name ? arcOf(fresh, portOf(arc)) : arc));
}

export function remove(doc: Doc, id: string): Doc {
  const [part, name] = split(id);
  const next = { ...doc, [part]: Object.fromEntries(Object.entries(doc[part] ?? {}).filter(([key]) => key !== name)) } as Doc;
  if (part === "outputs" || part === "points") return next;
  return mapArcs(next, (arc) => (originOf(arc) === name ? "" : arc));
}

/** A filter lost the predicate at `gone`: arcs behind it move up, those on it end. */
export function removePredicate(doc: Doc, name: string, gone: number): Doc {
  const predicates = (doc.boxes[name]?.filter ?? []).filter((_, i) => i !== gone);
  const next = change(doc, `boxes.${name}`, { filter: predicates });
  return mapArcs(next, (arc) => {
    if (originOf(arc) !== name || portOf(arc) < gone) return arc;
    return portOf(arc) === gone ? "" : arcOf(name, portOf(arc) - 1);
  });
}

export function addPredicate(doc: Doc, name: string): Doc {
  const predicates = doc.boxes[name]?.filter ?? [];
  const next = change(doc, `boxes.${name}`, { filter: [...predicates, ""] });
  // the rest keeps being the rest
  return mapArcs(next, (arc) => (originOf(arc) === name && portOf(arc) === predicates.length ? arcOf(name, predicates.length + 1) : arc));
}

const SAMPLE: Record<Piece, () => object> = {
  filter: () => ({ filter: [""], from: [] }),
  map: () => ({ map: {}, from: [] }),
  union: () => ({ union: true, from: [] }),
  bsort: () => ({ bsort: true, order: { on: "" }, from: [] }),
  aggregate: () => ({ aggregate: { n: "count(*)" }, order: { on: "" }, size: 1, from: [] }),
  join: () => ({ join: "", size: 0, left: { on: "" }, right: { on: "" }, from: [] }),
  resample: () => ({ resample: {}, size: 1, left: { on: "" }, right: { on: "" }, from: [] }),
  latest: () => ({ latest: [], from: [] }),
  running: () => ({ running: { n: "count(*)" }, from: [] }),
  source: () => ({}),
  table: () => ({}),
  output: () => ({ from: "", delay: [[0, 1], [5, 1], [30, 0]] }),
  point: () => ({ from: "" }),
};

export const partOf = (piece: Piece): Part =>
  piece === "source" ? "sources" : piece === "table" ? "tables" : piece === "output" ? "outputs" : piece === "point" ? "points" : "boxes";

export function add(doc: Doc, piece: Piece, group: string): [Doc, string] {
  const part = partOf(piece);
  const ends = part === "outputs" || part === "points";
  const taken = ends ? { ...doc.outputs, ...doc.points } : { ...doc.sources, ...doc.tables, ...doc.boxes };
  let n = 1;
  while (`${piece}_${n}` in taken) n++;
  const name = `${piece}_${n}`;
  const body = { ...SAMPLE[piece](), ...(part === "boxes" && group ? { group } : {}) };
  return [{ ...doc, [part]: { ...doc[part], [name]: body } }, `${part}.${name}`];
}

/** What a box does, in a line. */
export function summary(box: Box): string {
  const pairs = (columns: Columns) => Object.entries(columns).map(([name, text]) => `${name} = ${text}`).join(", ");
  const order = (one?: Order) => (one?.on ? `by ${one.on}${one.group_by?.length ? ` for each ${one.group_by.join(", ")}` : ""}` : "");
  if (box.filter) return "";
  if (box.map) return pairs(box.map) || "no columns yet";
  if (box.bsort) return `${order(box.order) || "no order yet"}${box.order?.slack ? `, slack ${box.order.slack}` : ""}`;
  if (box.aggregate) return `${pairs(box.aggregate)} ${order(box.order)}, size ${box.size ?? "?"}`;
  if (box.join !== undefined) return box.join || "no predicate yet";
  if (box.latest) return `by ${box.latest.join(", ") || "nothing"}${box.before ? ", before it" : ""}`;
  if (box.running) return `${pairs(box.running)}${box.group_by?.length ? ` for each ${box.group_by.join(", ")}` : ""}`;
  if (box.resample) return `${pairs(box.resample)}, size ${box.size ?? "?"}`;
  return "";
}

export const isName = (text: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(text);
