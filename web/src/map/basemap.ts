// What lies below the positions: tiles if the console has some, streets, zones; drawn again when the map moves.
import { css, VIRIDIS } from "../shared/scales";
import { drawScale, type View } from "../shared/view";
import type { Roads, Zone } from "./data";
import type { Table } from "./tracks";

export interface Ink {
  dim: string;
  zone: string;
}

/** Classes of streets, from motorways (0) to footpaths (14), with the width and the weight of their lines. */
const CLASSES: readonly { upTo: number; width: number; alpha: number }[] = [
  { upTo: 3, width: 2.6, alpha: 0.7 },
  { upTo: 7, width: 1.8, alpha: 0.6 },
  { upTo: 10, width: 1.3, alpha: 0.5 },
  { upTo: 99, width: 1, alpha: 0.45 },
];
/** Corners that are drawn while the map moves; small streets of a large network come when it is closer. */
const MOST_CORNERS = 400_000;

/** Values of edges, and the ends of their scale. */
export interface StreetValues {
  of: ReadonlyMap<number, number>;
  range: readonly [number, number];
}

/** The mean value of an attribute on each edge that something was on in a period. */
export function byEdge(table: Table, edges: Float32Array, values: Float32Array, since: number, until: number): Map<number, number> {
  const sums = new Map<number, [number, number]>();
  for (let i = 0; i < table.t.length; i++) {
    const [t, edge, value] = [table.t[i] ?? 0, edges[i] ?? NaN, values[i] ?? NaN];
    if (t < since || t > until || Number.isNaN(edge) || Number.isNaN(value)) continue;
    const known = sums.get(edge);
    if (known) {
      known[0] += value;
      known[1]++;
    } else sums.set(edge, [value, 1]);
  }
  return new Map([...sums].map(([edge, [sum, many]]) => [edge, sum / many]));
}

function trace(c: CanvasRenderingContext2D, v: View, roads: Roads, k: number): void {
  const [bx, by] = [(roads.origin[0] - v.x) * v.scale, (v.y - roads.origin[1]) * v.scale];
  const [first, last] = [roads.offsets[k] ?? 0, roads.offsets[k + 1] ?? 0];
  for (let i = first; i < last; i++) {
    const [x, y] = [bx + (roads.x[i] ?? 0) * v.scale, by - (roads.y[i] ?? 0) * v.scale];
    if (i === first) c.moveTo(x, y);
    else c.lineTo(x, y);
  }
}

/** Whether a line may be on the map: its ends or its middle are not all beyond the same side. */
function isVisible(c: CanvasRenderingContext2D, v: View, roads: Roads, k: number): boolean {
  const { clientWidth: w, clientHeight: h } = c.canvas;
  let [left, right, top, bottom] = [true, true, true, true];
  for (let i = roads.offsets[k] ?? 0; i < (roads.offsets[k + 1] ?? 0); i++) {
    const [x, y] = [v.px((roads.x[i] ?? 0) + roads.origin[0]), v.py((roads.y[i] ?? 0) + roads.origin[1])];
    [left, right, top, bottom] = [left && x < 0, right && x > w, top && y < 0, bottom && y > h];
  }
  return !(left || right || top || bottom);
}

function drawRoads(c: CanvasRenderingContext2D, v: View, roads: Roads, ink: Ink): void {
  const visible: number[] = [];
  let corners = 0;
  for (let k = 0; k + 1 < roads.offsets.length; k++) {
    if (!isVisible(c, v, roads, k)) continue;
    visible.push(k);
    corners += (roads.offsets[k + 1] ?? 0) - (roads.offsets[k] ?? 0);
  }
  let from = 0;
  for (const { upTo, width, alpha } of CLASSES) {
    c.beginPath();
    for (const k of visible) {
      const kind = roads.kind[k] ?? 0;
      if (kind >= from && kind <= upTo) trace(c, v, roads, k);
    }
    c.globalAlpha = alpha;
    c.strokeStyle = ink.dim;
    c.lineWidth = width * Math.min(2.5, Math.max(0.7, v.scale * 30));
    c.stroke();
    from = upTo + 1;
    if (upTo >= 7 && corners > MOST_CORNERS) break;
  }
  c.globalAlpha = 1;
}

/** Streets with values, over the others. */
function drawValues(c: CanvasRenderingContext2D, v: View, roads: Roads, { of, range: [low, high] }: StreetValues): void {
  const shades = 16;
  const lines: number[][] = Array.from({ length: shades }, () => []);
  for (let k = 0; k + 1 < roads.offsets.length; k++) {
    const both = [of.get(roads.edge[k] ?? -1), of.get(roads.reverse[k] ?? -1)].filter((one) => one !== undefined);
    if (!both.length || !isVisible(c, v, roads, k)) continue;
    const share = (both.reduce((a, b) => a + b, 0) / both.length - low) / (high - low || 1);
    lines[Math.max(0, Math.min(shades - 1, Math.floor(share * shades)))]?.push(k);
  }
  c.lineWidth = Math.min(7, Math.max(3, v.scale * 90));
  lines.forEach((some, shade) => {
    c.beginPath();
    for (const k of some) trace(c, v, roads, k);
    c.strokeStyle = css(VIRIDIS, shade / (shades - 1));
    c.stroke();
  });
}

function drawZones(c: CanvasRenderingContext2D, v: View, zones: readonly Zone[], ink: Ink): void {
  for (const zone of zones) {
    c.beginPath();
    for (const ring of zone.rings) ring.forEach(([x, y], i) => (i ? c.lineTo(v.px(x), v.py(y)) : c.moveTo(v.px(x), v.py(y))));
    c.closePath();
    c.fillStyle = ink.zone;
    c.globalAlpha = 0.12;
    c.fill("evenodd");
    c.globalAlpha = 1;
    c.strokeStyle = ink.zone;
    c.lineWidth = 1.6;
    c.stroke();
    const [x, y] = zone.rings[0]?.[0] ?? [NaN, NaN];
    c.fillStyle = ink.zone;
    c.font = "600 13px 'Overpass Variable', sans-serif";
    c.textAlign = "left";
    c.fillText(zone.name, v.px(x) + 6, v.py(y) - 6);
  }
}

/** Half the width of the world in Web Mercator. */
const HALF = 20_037_508.342789244;

/** Pictures of the world from another site, if the console was started with its address. */
export class Tiles {
  private readonly known = new Map<string, HTMLImageElement>();
  constructor(
    private readonly template: string,
    private readonly onLoaded: () => void,
  ) {}

  draw(c: CanvasRenderingContext2D, v: View): void {
    const { clientWidth: w, clientHeight: h } = c.canvas;
    const zoom = Math.max(0, Math.min(19, Math.round(Math.log2((2 * HALF * v.scale) / 256))));
    const many = 2 ** zoom;
    const size = (2 * HALF) / many;
    const [x0, y0] = [Math.floor((v.x + HALF) / size), Math.floor((HALF - v.y) / size)];
    const [x1, y1] = [Math.floor((v.x + w / v.scale + HALF) / size), Math.floor((HALF - v.y + h / v.scale) / size)];
    for (let x = Math.max(0, x0); x <= Math.min(many - 1, x1); x++) {
      for (let y = Math.max(0, y0); y <= Math.min(many - 1, y1); y++) {
        const image = this.find(zoom, x, y);
        if (image.complete && image.naturalWidth) c.drawImage(image, v.px(x * size - HALF), v.py(HALF - y * size), size * v.scale + 0.5, size * v.scale + 0.5);
      }
    }
  }

  private find(z: number, x: number, y: number): HTMLImageElement {
    const url = this.template.replace("{z}", String(z)).replace("{x}", String(x)).replace("{y}", String(y));
    const known = this.known.get(url);
    if (known) return known;
    if (this.known.size > 400) for (const old of [...this.known.keys()].slice(0, 200)) this.known.delete(old);
    const image = new Image();
    image.onload = this.onLoaded;
    image.src = url;
    this.known.set(url, image);
    return image;
  }
}

export interface Below {
  roads: Roads | undefined;
  zones: readonly Zone[];
  tiles: Tiles | undefined;
  values: StreetValues | undefined;
}

export function drawBelow(c: CanvasRenderingContext2D, v: View, below: Below, stretch: number, ink: Ink): void {
  c.clearRect(0, 0, c.canvas.clientWidth, c.canvas.clientHeight);
  c.lineJoin = c.lineCap = "round";
  below.tiles?.draw(c, v);
  if (below.roads) drawRoads(c, v, below.roads, ink);
  if (below.roads && below.values) drawValues(c, v, below.roads, below.values);
  drawZones(c, v, below.zones, ink);
  drawScale(c, v.scale, ink.dim, stretch);
}
