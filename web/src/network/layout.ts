// Automatic layout: layers along the stream, neighbours close to each other; long streams wrap like lines of text.

export interface Spot {
  id: string;
  height: number;
  /** stages are ordered: each is left of the next */
  stage?: number;
}
export type Positions = Record<string, { x: number; y: number }>;
/** Where everything is, and in which line. */
export interface Layout {
  places: Positions;
  lines: Record<string, number>;
}

export const WIDTH = 188;
// leave room for the labels of arcs between boxes
const ACROSS = WIDTH + 84;
const BETWEEN = 36;
/** between lines: frames of stages, and arcs that go back to the left */
const BETWEEN_LINES = 110;

/** The layers that fit into a line of this width. */
export const layersIn = (width: number): number => Math.max(1, Math.floor((width + ACROSS - WIDTH) / ACROSS));

/** `arcs` are [from, to] pairs of ids; a line has at most `most` layers. */
export function layout(spots: Spot[], arcs: [string, string][], most = Infinity): Layout {
  const layer = layersOf(spots, arcs);
  const columns: Spot[][] = [];
  for (const spot of spots) (columns[layer.get(spot.id) ?? 0] ??= []).push(spot);
  const count = Math.ceil(columns.length / most) || 1;
  const perLine = Math.ceil(columns.length / count);
  const lineOf = (x: number) => Math.floor(x / perLine);
  const tallest = Array.from({ length: count }, (_, line) => Math.max(0, ...columns.filter((_column, x) => lineOf(x) === line).map(tallOf)));
  const found: Positions = {};
  const lines: Record<string, number> = {};
  const before = new Map<string, string[]>();
  for (const [from, to] of arcs) before.set(to, [...(before.get(to) ?? []), from]);
  columns.forEach((column, x) => {
    const middle = (spot: Spot) => mean((before.get(spot.id) ?? []).map((id) => found[id]?.y).filter((y) => y !== undefined));
    const ordered = x === 0 ? column : [...column].sort((a, b) => middle(a) - middle(b));
    const line = lineOf(x);
    const above = tallest.slice(0, line).reduce((sum, tall) => sum + tall + BETWEEN_LINES, 0);
    let y = above + ((tallest[line] ?? 0) - tallOf(column)) / 2;
    for (const spot of ordered) {
      found[spot.id] = { x: (x % perLine) * ACROSS, y: Math.round(y) };
      lines[spot.id] = line;
      y += spot.height + BETWEEN;
    }
  });
  return { places: found, lines };
}

const tallOf = (column: Spot[]): number => column.reduce((sum, spot) => sum + spot.height + BETWEEN, -BETWEEN);

function layersOf(spots: Spot[], arcs: [string, string][]): Map<string, number> {
  const layer = new Map(spots.map((spot) => [spot.id, 0]));
  // longest path; bounded by the number of layers, so loops terminate too
  for (let round = 0; round < spots.length; round++) {
    let moved = false;
    for (const [from, to] of arcs) {
      const wanted = (layer.get(from) ?? 0) + 1;
      if ((layer.get(to) ?? 0) < wanted && wanted < spots.length) {
        layer.set(to, wanted);
        moved = true;
      }
    }
    moved = inStages(spots, layer) || moved;
    if (!moved) break;
  }
  return layer;
}

/** Move each stage behind the previous ones; returns whether anything moved. */
function inStages(spots: Spot[], layer: Map<string, number>): boolean {
  let [moved, end] = [false, -1];
  const stages = [...new Set(spots.flatMap(({ stage }) => (stage === undefined ? [] : [stage])))].sort((a, b) => a - b);
  for (const stage of stages) {
    const inside = spots.filter((spot) => spot.stage === stage);
    for (const { id } of inside) {
      if ((layer.get(id) ?? 0) > end || end + 1 >= spots.length) continue;
      layer.set(id, end + 1);
      moved = true;
    }
    end = Math.max(...inside.map(({ id }) => layer.get(id) ?? 0));
  }
  return moved;
}

const mean = (numbers: number[]): number => (numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : 0);
