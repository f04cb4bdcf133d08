// One frame of the map: what moves, in pixels of the screen.
import type { View } from "../shared/view";
import { disc, type Pixels } from "./paint";
import { scaled, type Shades } from "./shades";
import type { Tracks } from "./tracks";

export interface Look {
  shades: Shades;
  density: boolean;
  /** seconds of the way behind each */
  tail: number;
  /** every how manyth is drawn */
  step: number;
}

/** Corners of tails in one frame. */
const MOST_CORNERS = 150_000;

/** Draw what `tracks.look` found. */
export function drawPoints(pixels: Pixels, tracks: Tracks, v: View, ratio: number, time: number, look: Look): void {
  const { origin } = tracks.table;
  const scale = v.scale * ratio;
  const [bx, by] = [(origin[0] - v.x) * scale, (v.y - origin[1]) * scale];
  if (look.density) return drawDensity(pixels, tracks, scale, bx, by, ratio);
  if (look.tail > 0 && tracks.table.timed) drawTails(pixels, tracks, scale, bx, by, ratio, time, look);
  const few = tracks.count < 3000;
  const spans = disc(Math.round(ratio * Math.min(few ? 9 : 7, (few ? 5 : 3) + 60 * v.scale)));
  const { codes, words } = look.shades;
  const only = words[0] ?? 0;
  for (let k = 0; k < tracks.at.length; k += look.step) {
    if (!tracks.shown[k]) continue;
    const [x, y] = [bx + (tracks.x[k] ?? 0) * scale, by - (tracks.y[k] ?? 0) * scale];
    if (x < 0 || y < 0 || x >= pixels.width || y >= pixels.height) continue;
    pixels.dot(x, y, spans, codes ? (words[codes[tracks.at[k] ?? 0] ?? 0] ?? 0) : only);
  }
}

function drawTails(pixels: Pixels, tracks: Tracks, scale: number, bx: number, by: number, ratio: number, time: number, look: Look): void {
  const { rows, t, x, y } = tracks.table;
  const { codes, words } = look.shades;
  const thick = Math.max(1, Math.round(ratio));
  let left = MOST_CORNERS;
  for (let k = 0; k < tracks.at.length && left > 0; k += look.step) {
    if (!tracks.shown[k]) continue;
    const [first, here] = [rows[k] ?? 0, tracks.at[k] ?? 0];
    let [px, py] = [bx + (tracks.x[k] ?? 0) * scale, by - (tracks.y[k] ?? 0) * scale];
    for (let i = here; i >= first && time - (t[i] ?? 0) <= look.tail; i--) {
      if (i < here && (t[i + 1] ?? 0) - (t[i] ?? 0) > tracks.hold) break;
      const [nx, ny] = [bx + (x[i] ?? 0) * scale, by - (y[i] ?? 0) * scale];
      // the tail fades: alpha is the upper byte
      const alpha = Math.round(200 * (1 - (time - (t[i] ?? 0)) / look.tail)) + 30;
      const colour = (codes ? words[codes[i] ?? 0] : words[0]) ?? 0;
      pixels.line(px, py, nx, ny, ((colour & 0xffffff) | (alpha << 24)) >>> 0, thick);
      [px, py] = [nx, ny];
      left--;
    }
  }
}

/** How many there are in each square of the map, on a logarithmic scale. */
function drawDensity(pixels: Pixels, tracks: Tracks, scale: number, bx: number, by: number, ratio: number): void {
  const size = Math.round(8 * ratio);
  const [columns, rows] = [Math.ceil(pixels.width / size), Math.ceil(pixels.height / size)];
  const counts = new Uint32Array(columns * rows);
  let most = 1;
  for (let k = 0; k < tracks.at.length; k++) {
    if (!tracks.shown[k]) continue;
    const [column, row] = [Math.floor((bx + (tracks.x[k] ?? 0) * scale) / size), Math.floor((by - (tracks.y[k] ?? 0) * scale) / size)];
    if (column < 0 || row < 0 || column >= columns || row >= rows) continue;
    const cell = row * columns + column;
    counts[cell] = (counts[cell] ?? 0) + 1;
    most = Math.max(most, counts[cell] ?? 0);
  }
  const full = Math.log1p(most);
  counts.forEach((count, cell) => {
    if (!count) return;
    const share = Math.log1p(count) / full;
    pixels.cell((cell % columns) * size, Math.floor(cell / columns) * size, size, scaled(share, 110 + Math.round(140 * share)));
  });
}
