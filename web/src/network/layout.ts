// Automatic layout: layers along the stream, neighbours close to each other.

export interface Spot {
  id: string;
  height: number;
  /** stages are ordered: each is left of the next */
  stage?: number;
}
export type Positions = Record<string, { x: number; y: number }>;

export const WIDTH = 188;
// leave room for the labels of arcs between boxes
const ACROSS = WIDTH + 104;
const BETWEEN = 36;

/** `arcs` are [from, to] pairs of ids. */
export function layout(spots: Spot[], arcs: [string, string][]): Positions {
  const layer = layersOf(spots, arcs);
  const columns: Spot[][] = [];
  for (const spot of spots) (columns[layer.get(spot.id) ?? 0] ??= []).push(spot);
  const found: Positions = {};
  const before = new Map<string, string[]>();
  for (const [from, to] of arcs) before.set(to, [...(before.get(to) ?? []), from]);
  columns.forEach((column, x) => {
    const middle = (spot: Spot) => mean((before.get(spot.id) ?? []).map((id) => found[id]?.y).filter((y) => y !== undefined));
    const ordered = x === 0 ? column : [...column].sort((a, b) => middle(a) - middle(b));
    const tall = ordered.reduce((sum, spot) => sum + spot.height + BETWEEN, -BETWEEN);
    let y = -tall / 2;
    for (const spot of ordered) {
      found[spot.id] = { x: x * ACROSS, y: Math.round(y) };
      y += spot.height + BETWEEN;
    }
  });
  return found;
}

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
