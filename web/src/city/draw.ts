// Draw the city on a canvas: pure functions of what is displayed.
import { css, type Scale, VIRIDIS } from "../shared/scales";
import { type Cars, type Grid, MILE, NOBODY, type Place, SEGMENTS } from "./types";

export type Measure = "speed" | "cars" | "toll";

export interface MeasureInfo {
  title: string;
  unit: string;
  scale: Scale;
  /** the values at the dark and the bright end; what needs attention is bright */
  ends: (grid: Grid) => [number, number];
  values: (grid: Grid) => Uint8Array | Uint16Array | Uint32Array;
  curve: (share: number) => number;
}

const most = (values: Iterable<number>, least: number): number => {
  for (const value of values) least = Math.max(least, value);
  return least;
};

export const MEASURES: Record<Measure, MeasureInfo> = {
  speed: { title: "Speed", unit: "mph", scale: VIRIDIS, ends: () => [70, 0], values: (g) => g.speed, curve: (s) => s },
  cars: { title: "Density", unit: "cars per mile", scale: VIRIDIS, ends: (g) => [0, most(g.cars, 50)], values: (g) => g.cars, curve: Math.sqrt },
  toll: { title: "Toll", unit: "per segment", scale: VIRIDIS, ends: (g) => [0, most(g.toll, 100)], values: (g) => g.toll, curve: Math.sqrt },
};

export interface Ink {
  road: string;
  text: string;
  dim: string;
  line: string;
  alarm: string;
  focus: string;
  back: string;
  dark: boolean;
}

/** The part of a scale that contrasts with the background. */
export const shade = (share: number, dark: boolean): number => (dark ? 0.12 + 0.88 * share : 0.92 * share);

/** The layout of the canvas. */
export interface Frame {
  width: number;
  height: number;
  left: number;
  top: number;
  row: number; // of an expressway, both directions
  gap: number; // between expressways
  rows: number;
}

export function frameOf(width: number, height: number, rows: number): Frame {
  const left = 44;
  const top = 20;
  const room = Math.max(1, height - top - 4);
  const row = Math.max(2, room / Math.max(rows, 1));
  const gap = row >= 24 ? 8 : row >= 12 ? 4 : row >= 6 ? 1.5 : 0;
  return { width, height, left, top, row, gap, rows };
}

const hex = (colour: string): [number, number, number] =>
  [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as [number, number, number];

/** One pixel per segment; eastbound and westbound rows alternate. */
export function paint(image: ImageData, grid: Grid, measure: Measure, ink: Ink): void {
  const info = MEASURES[measure];
  const values = info.values(grid);
  const [dark, bright] = info.ends(grid);
  const empty = hex(ink.road);
  for (let i = 0; i < values.length; i++) {
    const at = i * 4;
    image.data[at + 3] = 255;
    const nobody = grid.speed[i] === NOBODY || (measure === "toll" && values[i] === 0);
    const share = Math.min(1, Math.max(0, ((values[i] ?? 0) - dark) / (bright - dark)));
    const k = Math.round(shade(info.curve(share), ink.dark) * 255) * 3;
    for (let c = 0; c < 3; c++) image.data[at + c] = nobody ? (empty[c] ?? 0) : (info.scale[k + c] ?? 0);
  }
}

/** A transition from one map to the next. */
export function blend(out: ImageData, from: ImageData, to: ImageData, share: number): void {
  for (let i = 0; i < out.data.length; i++) {
    const a = from.data[i] ?? 0;
    out.data[i] = a + ((to.data[i] ?? 0) - a) * share;
  }
}

export function drawCity(
  c: CanvasRenderingContext2D,
  f: Frame,
  cells: CanvasImageSource,
  grid: Grid,
  ink: Ink,
  chosen: Place | undefined,
): void {
  c.clearRect(0, 0, f.width, f.height);
  c.imageSmoothingEnabled = false;
  const wide = f.width - f.left;
  ticks(c, f, ink);
  const every = [1, 2, 5, 10, 20, 50].find((n) => n * f.row >= 15) ?? 100;
  for (let r = 0; r < grid.xways.length; r++) {
    const y = f.top + r * f.row;
    const strip = (f.row - f.gap) / 2;
    // align bands to pixels: half pixels between thin bands would look like gaps
    const [top, middle, bottom] = [y, y + strip, y + 2 * strip].map(Math.round) as [number, number, number];
    const apart = f.gap > 4 ? 1 : 0;
    c.drawImage(cells, 0, 2 * r, SEGMENTS, 1, f.left, top, wide, middle - top);
    c.drawImage(cells, 0, 2 * r + 1, SEGMENTS, 1, f.left, middle + apart, wide, bottom - middle);
    if (r % every === 0) {
      c.fillStyle = ink.dim;
      c.font = `${f.row >= 20 ? 13 : 11}px 'Overpass Mono Variable', monospace`;
      c.textAlign = "right";
      c.textBaseline = "middle";
      c.fillText(String(grid.xways[r]), f.left - 8, every > 1 ? y + 4 : y + (f.row - f.gap) / 2);
    }
  }
  marks(c, f, grid, ink);
  if (chosen) outline(c, f, grid, chosen, ink);
}

function ticks(c: CanvasRenderingContext2D, f: Frame, ink: Ink): void {
  c.fillStyle = ink.dim;
  c.font = "11px 'Overpass Mono Variable', monospace";
  c.textBaseline = "alphabetic";
  for (let seg = 0; seg <= SEGMENTS; seg += 10) {
    c.textAlign = seg === SEGMENTS ? "right" : seg === 0 ? "left" : "center";
    c.fillText(String(seg === SEGMENTS ? 99 : seg), f.left + ((f.width - f.left) * seg) / SEGMENTS, 12);
  }
}

export function boxOf(f: Frame, row: number, dir: number, seg: number): [number, number, number, number] {
  const wide = (f.width - f.left) / SEGMENTS;
  const strip = (f.row - f.gap) / 2;
  return [f.left + seg * wide, f.top + row * f.row + dir * (strip + (f.gap > 4 ? 1 : 0)), wide, strip];
}

/** Accidents have their own shape, so that colour is not needed to see them. */
function marks(c: CanvasRenderingContext2D, f: Frame, grid: Grid, ink: Ink): void {
  for (let i = 0; i < grid.accident.length; i++) {
    if (!grid.accident[i]) continue;
    const [x, y, w, h] = boxOf(f, Math.floor(i / (2 * SEGMENTS)), Math.floor(i / SEGMENTS) % 2, i % SEGMENTS);
    diamond(c, x + w / 2, y + h / 2, Math.max(4.5, Math.min(10, h / 2.4)), ink);
  }
}

export function diamond(c: CanvasRenderingContext2D, x: number, y: number, r: number, ink: Ink): void {
  c.beginPath();
  c.moveTo(x, y - r);
  c.lineTo(x + r, y);
  c.lineTo(x, y + r);
  c.lineTo(x - r, y);
  c.closePath();
  c.fillStyle = ink.alarm;
  c.fill();
  c.lineWidth = 1.5;
  c.strokeStyle = ink.back;
  c.stroke();
  if (r < 6) return;
  c.fillStyle = ink.back;
  c.fillRect(x - 0.9, y - r * 0.5, 1.8, r * 0.6);
  c.fillRect(x - 0.9, y + r * 0.28, 1.8, 1.8);
}

function outline(c: CanvasRenderingContext2D, f: Frame, grid: Grid, place: Place, ink: Ink): void {
  const row = grid.xways.indexOf(place.xway);
  if (row < 0) return;
  const [x, y, w, h] = boxOf(f, row, place.dir, place.seg);
  c.lineWidth = 2;
  c.strokeStyle = ink.focus;
  c.strokeRect(x - 1, y - 1, w + 2, h + 2);
}

/** The segment under a point of the canvas. */
export function placeAt(f: Frame, grid: Grid, x: number, y: number): Place | undefined {
  const row = Math.floor((y - f.top) / f.row);
  const xway = grid.xways[row];
  const seg = Math.floor(((x - f.left) / (f.width - f.left)) * SEGMENTS);
  if (xway === undefined || row < 0 || seg >= SEGMENTS || x < 0) return undefined;
  const dir = y - f.top - row * f.row > (f.row - f.gap) / 2 ? 1 : 0;
  return { xway, dir, seg: Math.max(0, seg) };
}

const LANES = 5;
const STEPS = 12;
const stepOf = (mph: number): number => Math.min(STEPS, Math.round((mph / 70) * STEPS));
const sorted = new WeakMap<Cars, number[]>();

/** Cars by speed, so that the colour rarely changes while drawing. Slow ones come last, on top. */
function bySpeed(cars: Cars): number[] {
  let order = sorted.get(cars);
  if (!order) {
    order = cars.spd.map((_, i) => i).sort((a, b) => stepOf(cars.spd[b] ?? 0) - stepOf(cars.spd[a] ?? 0));
    sorted.set(cars, order);
  }
  return order;
}

/** One expressway with all its cars, extrapolated from their last reports. */
export function drawRoad(
  c: CanvasRenderingContext2D,
  f: Frame,
  cells: CanvasImageSource,
  grid: Grid,
  cars: Cars,
  now: number,
  ink: Ink,
  chosen: Place | undefined,
): void {
  c.clearRect(0, 0, f.width, f.height);
  c.imageSmoothingEnabled = false;
  ticks(c, f, ink);
  const row = grid.xways.indexOf(cars.xway);
  const wide = f.width - f.left;
  const half = (f.height - f.top - 24) / 2;
  for (const dir of [0, 1]) {
    const y = f.top + dir * (half + 20);
    c.globalAlpha = 0.22;
    c.drawImage(cells, 0, 2 * row + dir, SEGMENTS, 1, f.left, y, wide, half);
    c.globalAlpha = 1;
    c.fillStyle = ink.dim;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText(dir ? "west" : "east", f.left - 8, y + half / 2);
  }
  const band = half / LANES;
  const size = band > 14 ? 2 : 1;
  let ink_ = -1;
  for (const i of bySpeed(cars)) {
    const step = stepOf(cars.spd[i] ?? 0);
    if (step !== ink_) c.fillStyle = css(VIRIDIS, shade(1 - (ink_ = step) / STEPS, ink.dark));
    const dir = cars.dir[i] ?? 0;
    const since = Math.min(30, Math.max(0, now - (cars.time[i] ?? 0)));
    const feet = (cars.pos[i] ?? 0) + (dir ? -1 : 1) * (cars.spd[i] ?? 0) * (MILE / 3600) * since;
    const lane = cars.lane[i] ?? 0;
    // lanes go outwards from the middle: the exit and entry ramps are at the edges
    const place = dir ? lane : LANES - 1 - lane;
    // cars of a lane are spread vertically, each always at the same height, so that a crowd is visible
    const y = f.top + dir * (half + 20) + band * (place + 0.12 + 0.76 * (((cars.vid[i] ?? 0) * 0.618034) % 1));
    c.fillRect(f.left + (wide * feet) / (MILE * SEGMENTS) - size / 2, y - size / 2, size, size);
  }
  for (let i = row * 2 * SEGMENTS; i < (row + 1) * 2 * SEGMENTS; i++) {
    if (!grid.accident[i]) continue;
    const dir = Math.floor(i / SEGMENTS) % 2;
    diamond(c, f.left + (wide * ((i % SEGMENTS) + 0.5)) / SEGMENTS, f.top + dir * (half + 20) + half / 2, 10, ink);
  }
  if (chosen && chosen.xway === cars.xway) {
    c.lineWidth = 2;
    c.strokeStyle = ink.focus;
    c.strokeRect(f.left + (wide * chosen.seg) / SEGMENTS, f.top + chosen.dir * (half + 20) - 1, wide / SEGMENTS, half + 2);
  }
}

/** The segment under a point when one expressway is drawn. */
export function roadPlaceAt(f: Frame, xway: number, x: number, y: number): Place | undefined {
  const seg = Math.floor(((x - f.left) / (f.width - f.left)) * SEGMENTS);
  const half = (f.height - f.top - 24) / 2;
  if (seg < 0 || seg >= SEGMENTS || y < f.top) return undefined;
  return { xway, dir: y > f.top + half + 10 ? 1 : 0, seg };
}
