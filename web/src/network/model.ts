// A network as data: the fields of the network file, and the edits that drawing makes to them.

export type Columns = Record<string, string>;
export type Points = [number, number][];

export interface Order {
  on: string;
  slack?: number;
  group_by?: string[];
}

/** What an operator, a toll box or an archive is given, by name. */
export type Parameters = Record<string, unknown>;

/** A box that is a class, as the server describes it. */
export interface Shape {
  /** operator for those that networks name; otherwise the field of its box */
  kind: string;
  name: string;
  about: string;
  takes: number;
  ports: string[];
  parameters: { name: string; type: string; default: unknown; is_required: boolean }[];
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
  operator?: string;
  parameters?: Parameters;
  keep?: string;
  /** of a keep box: the first key of each partition but the first */
  ranges?: number[];
  query?: string;
  lookup?: Columns;
  /** of a lookup: the column whose row is looked up */
  key?: string;
  toll?: Parameters;
  order?: Order;
  left?: Order;
  right?: Order;
  size?: number;
  advance?: number;
  timeout?: number;
  lag?: number;
  /** of an aggregate: the arc that says how far the order has come */
  clock?: string;
  /** of a lookup, or a join with a stored table: tuples without a match stay */
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
  /** where its tuples go besides its table */
  to?: string | string[];
  /** its tuples are stored as trips */
  archive?: Parameters;
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

const STREAM_KINDS = ["filter", "map", "union", "bsort", "aggregate", "join", "resample", "latest", "running"] as const;
const CLASS_KINDS = ["keep", "query", "lookup", "toll", "operator"] as const;
export const KINDS = [...STREAM_KINDS, ...CLASS_KINDS] as const;
export type Kind = (typeof KINDS)[number];
export type Part = "sources" | "tables" | "boxes" | "outputs" | "points";
/** What the palette offers. */
export type Piece = Kind | "source" | "topic" | "socket" | "folder" | "table" | "output" | "archive" | "point";

/** The palette, under its headings. */
export const PALETTE: [string, readonly Piece[]][] = [
  ["Recorded input", ["source", "table"]],
  ["Live sources", ["topic", "socket", "folder"]],
  ["Boxes", STREAM_KINDS],
  ["Cuboids", ["keep", "query", "lookup"]],
  ["Classes", ["toll", "operator"]],
  ["Ends", ["output", "archive", "point"]],
];

export const TITLES: Record<Piece, [string, string]> = {
  filter: ["Filter", "routes tuples by predicates"],
  map: ["Map", "computes columns from expressions"],
  union: ["Union", "merges streams of the same schema"],
  bsort: ["BSort", "sorts tuples within a buffer"],
  aggregate: ["Aggregate", "computes functions over windows"],
  join: ["Join", "pairs tuples of two streams"],
  resample: ["Resample", "interpolates one stream at the times of another"],
  latest: ["Latest", "pairs each tuple with the newest of another stream"],
  running: ["Running", "computes running totals"],
  keep: ["Keep", "fills a cuboid"],
  query: ["Query", "queries a cuboid at every arrival"],
  lookup: ["Lookup", "joins tuples with the rows of a cuboid"],
  toll: ["Toll", "Linear Road’s five answers"],
  operator: ["Operator", "a class of your own"],
  source: ["Source", "an input stream"],
  topic: ["Kafka topic", "a source that reads messages as they arrive"],
  socket: ["TCP socket", "a source that reads lines as they are sent"],
  folder: ["Followed folder", "a source that reads files as they appear"],
  table: ["Table", "a stored table to join with"],
  output: ["Output", "an output stream and its quality of service"],
  archive: ["Archive", "an output that stores trips"],
  point: ["Connection point", "an arc that keeps its history"],
};

export const EMPTY: Doc = { network: "untitled", version: 1, sources: {}, boxes: {}, outputs: {} };

export const kindOf = (box: Box): Kind => KINDS.find((kind) => kind in box) ?? "filter";
export const split = (id: string): [Part, string] => {
  const dot = id.indexOf(".");
  return [id.slice(0, dot) as Part, id.slice(dot + 1)];
};
export const originOf = (arc: string): string => arc.split(".")[0] ?? "";
/** The output an arc starts from: "" for the first, then a number, or the name an operator gives it. */
export const portOf = (arc: string): string => arc.split(".")[1] ?? "";
export const arcOf = (origin: string, port: string | number): string => (port ? `${origin}.${port}` : origin);

/** The place id of whatever an arc starts from. */
export function placeOf(doc: Doc, origin: string): string | undefined {
  for (const part of ["sources", "tables", "boxes"] as const) if (doc[part]?.[origin]) return `${part}.${origin}`;
  return undefined;
}

export interface Port {
  port: string;
  title: string;
}

/** The class of a box, if it is one and the server knows it. */
export function shapeOf(box: Box | undefined, shapes: readonly Shape[]): Shape | undefined {
  if (!box) return undefined;
  const kind = kindOf(box);
  return shapes.find((one) => one.kind === kind && (kind !== "operator" || one.name === box.operator));
}

/** The outputs of a place: of a filter its predicates, of a class those it names, and whatever arcs start from. */
export function portsOf(doc: Doc, origin: string, shapes: readonly Shape[]): Port[] {
  const box = doc.boxes[origin];
  if (box?.filter) return [...box.filter, "else"].map((title, i) => ({ port: i ? String(i) : "", title: title || "no predicate yet" }));
  const known = shapeOf(box, shapes)?.ports.map((title, i) => ({ port: i ? title : "", title })) ?? [{ port: "", title: "" }];
  const arcs = takersOf(doc).flatMap((id) => inputsOf(doc, id)).filter((arc) => arc && originOf(arc) === origin);
  const others = [...new Set(arcs.map(portOf))].filter((port) => known.every((one) => one.port !== port));
  return [...known, ...others.map((port) => ({ port, title: port }))];
}

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

export function sides(box: Box): number {
  if (box.operator !== undefined) return Array.isArray(box.from) ? Math.max(box.from.length, 1) : 1;
  return box.join !== undefined || box.resample || box.latest || box.lookup || box.clock !== undefined ? 2 : 1;
}

/** What the inputs of a box are called. */
export function sideNames(box: Box | undefined): string[] {
  if (!box || box.union) return [];
  if (box.clock !== undefined) return ["Input", "Clock"];
  if (box.lookup) return ["Cuboid", "Input"];
  if (box.operator !== undefined) return sides(box) > 1 ? Array.from({ length: sides(box) }, (_, i) => `Input ${i + 1}`) : ["Input"];
  return sides(box) === 2 ? ["Left input", "Right input"] : ["Input"];
}

/** All arcs one can take tuples from. */
export function arcsOf(doc: Doc, shapes: readonly Shape[]): string[] {
  const origins = [...Object.keys(doc.sources), ...Object.keys(doc.tables ?? {}), ...Object.keys(doc.boxes)];
  return origins.flatMap((origin) => portsOf(doc, origin, shapes).map(({ port }) => arcOf(origin, port)));
}

export function arcTitle(doc: Doc, arc: string, shapes: readonly Shape[]): string {
  const found = portsOf(doc, originOf(arc), shapes);
  const title = found.length > 1 ? found.find(({ port }) => port === portOf(arc))?.title : undefined;
  return title ? `${originOf(arc)}: ${title}` : arc;
}

/** The same box as another operator: with its inputs, and of its parameters those that both have. */
export function asOperator(box: Box, name: string, shape: Shape | undefined): Partial<Record<keyof Box, unknown>> {
  const names = shape?.parameters.map((one) => one.name) ?? [];
  const kept = Object.entries(box.parameters ?? {}).filter(([key]) => names.includes(key));
  const arcs = Array.isArray(box.from) ? box.from : [box.from];
  const from = Array.from({ length: shape?.takes ?? arcs.length }, (_, i) => arcs[i] ?? "");
  return { operator: name, parameters: kept.length ? Object.fromEntries(kept) : undefined, from: from.length === 1 ? (from[0] ?? "") : from };
}

export function setInputs(doc: Doc, id: string, arcs: string[]): Doc {
  const [part, name] = split(id);
  const from = arcs.length === 1 ? (arcs[0] ?? "") : arcs;
  if (part === "boxes" && doc.boxes[name]?.operator !== undefined) return change(doc, id, { from });
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
    const port = Number(portOf(arc));
    if (originOf(arc) !== name || port < gone) return arc;
    return port === gone ? "" : arcOf(name, port - 1);
  });
}

export function addPredicate(doc: Doc, name: string): Doc {
  const predicates = doc.boxes[name]?.filter ?? [];
  const next = change(doc, `boxes.${name}`, { filter: [...predicates, ""] });
  // the rest keeps being the rest
  return mapArcs(next, (arc) => (originOf(arc) === name && Number(portOf(arc)) === predicates.length ? arcOf(name, predicates.length + 1) : arc));
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
  keep: () => ({ keep: "CREATE CUBOID car (vid INT KEY, speed AST(6))", from: [] }),
  query: () => ({ query: "SELECT vid, avg(speed) AS mean FROM car", from: [] }),
  lookup: () => ({ lookup: {}, key: "", from: [] }),
  toll: () => ({ toll: {}, from: [] }),
  operator: () => ({ operator: "", from: "" }),
  source: () => ({}),
  topic: () => ({}),
  socket: () => ({}),
  folder: () => ({}),
  table: () => ({}),
  output: () => ({ from: "", delay: [[0, 1], [5, 1], [30, 0]] }),
  archive: () => ({ from: "", archive: { id: "", time: "", x: "", y: "", gap: 300 } }),
  point: () => ({ from: "" }),
};

/** The pieces that are sources. */
const SOURCES: readonly Piece[] = ["source", "topic", "socket", "folder"];

export const partOf = (piece: Piece): Part =>
  SOURCES.includes(piece) ? "sources" : piece === "table" ? "tables" : piece === "output" || piece === "archive" ? "outputs" : piece === "point" ? "points" : "boxes";

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
  if (box.aggregate) return `${pairs(box.aggregate)} ${order(box.order)}, size ${box.size ?? "?"}${box.clock !== undefined ? ", by a clock" : ""}`;
  if (box.join !== undefined) return box.join || "no predicate yet";
  if (box.latest) return `by ${box.latest.join(", ") || "nothing"}${box.before ? ", before it" : ""}`;
  if (box.running) return `${pairs(box.running)}${box.group_by?.length ? ` for each ${box.group_by.join(", ")}` : ""}`;
  if (box.resample) return `${pairs(box.resample)}, size ${box.size ?? "?"}`;
  if (box.keep !== undefined) return box.keep.replace(/^create cuboid /i, "") || "no cuboid yet";
  if (box.query !== undefined) return box.query || "no query yet";
  if (box.lookup) return `${pairs(box.lookup) || "no columns yet"}${box.key ? ` of ${box.key}` : ""}`;
  if (box.toll) return given(box.toll) || "rules 2004";
  if (box.operator !== undefined) return `${box.operator || "no operator yet"} ${given(box.parameters ?? {})}`.trim();
  return "";
}

export const given = (parameters: Parameters): string => Object.entries(parameters).map(([name, value]) => `${name} ${String(value)}`).join(", ");

export const isName = (text: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(text);
