// Points, tails and density, written into the pixels of a canvas by hand: with 100,000 points this was by far the fastest
// way to draw without a graphics card (docs/design/map-drawing.md), and it needs nothing of the browser but a canvas.

/** A colour as a pixel of an image: alpha, blue, green, red. */
export const word = (red: number, green: number, blue: number, alpha = 255): number => ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** `#rrggbb` as a pixel. */
export function parseColour(hex: string, alpha = 255): number {
  const value = parseInt(hex.replace("#", "").slice(0, 6), 16) || 0;
  return word(value >> 16, (value >> 8) & 255, value & 255, alpha);
}

export class Pixels {
  width = 0;
  height = 0;
  words = new Uint32Array(0);
  private image: ImageData | undefined;

  /** Begin an empty picture of some size in pixels of the screen. */
  clear(width: number, height: number): void {
    if (this.words.length !== width * height || this.width !== width) {
      this.words = new Uint32Array(width * height);
      [this.width, this.height, this.image] = [width, height, undefined];
    } else this.words.fill(0);
  }

  /** A disc around a place; `spans` are the half widths of its lines, as `disc` returns them. */
  dot(x: number, y: number, spans: Int32Array, colour: number): void {
    const [left, top] = [Math.round(x), Math.round(y) - (spans.length >> 1)];
    const { width, height, words } = this;
    if (left < -spans.length || left > width + spans.length || top > height || top + spans.length < 0) return;
    for (let k = 0; k < spans.length; k++) {
      const row = top + k;
      if (row < 0 || row >= height) continue;
      const half = spans[k] ?? 0;
      const [from, to] = [Math.max(0, left - half), Math.min(width, left + half + 1)];
      if (from < to) words.fill(colour, row * width + from, row * width + to);
    }
  }

  /** A line of some thickness; what lies outside is left out. */
  line(x0: number, y0: number, x1: number, y1: number, colour: number, thick = 1): void {
    const { width, height, words } = this;
    if (Math.max(x0, x1) < 0 || Math.max(y0, y1) < 0 || Math.min(x0, x1) >= width || Math.min(y0, y1) >= height) return;
    const steps = Math.min(4096, Math.ceil(Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0))));
    const steep = Math.abs(y1 - y0) > Math.abs(x1 - x0);
    for (let k = 0; k <= steps; k++) {
      const share = steps ? k / steps : 0;
      const [x, y] = [Math.round(x0 + share * (x1 - x0)), Math.round(y0 + share * (y1 - y0))];
      for (let side = 0; side < thick; side++) {
        const [a, b] = steep ? [x + side, y] : [x, y + side];
        if (a >= 0 && b >= 0 && a < width && b < height) words[b * width + a] = colour;
      }
    }
  }

  /** A rectangle. */
  cell(x: number, y: number, size: number, colour: number): void {
    for (let row = y; row < Math.min(this.height, y + size); row++) this.words.fill(colour, row * this.width + x, row * this.width + Math.min(this.width, x + size));
  }

  show(context: CanvasRenderingContext2D): void {
    if (!this.width || !this.height) return;
    this.image ??= new ImageData(new Uint8ClampedArray(this.words.buffer), this.width, this.height);
    context.putImageData(this.image, 0, 0);
  }
}

/** The half widths of the lines of a disc with about a diameter in pixels: an odd number, so that it has a middle. */
export function disc(diameter: number): Int32Array {
  const lines = Math.max(1, 2 * Math.round((diameter - 1) / 2) + 1);
  const radius = lines / 2;
  return Int32Array.from({ length: lines }, (_, k) => Math.max(0, Math.round(Math.sqrt(Math.max(0, radius ** 2 - (k - (lines - 1) / 2) ** 2)) - 0.5)));
}

/** How many of many to draw: every `step`-th, so that a frame takes no more than its share of a second. */
export class Budget {
  step = 1;
  private usual = 0;
  constructor(private readonly milliseconds = 28) {}

  /** Take note of what a frame has cost; returns whether the step has changed. */
  note(milliseconds: number): boolean {
    this.usual = this.usual ? 0.8 * this.usual + 0.2 * milliseconds : milliseconds;
    const before = this.step;
    if (this.usual > this.milliseconds && this.step < 256) this.step *= 2;
    else if (this.usual < this.milliseconds / 4 && this.step > 1) this.step /= 2;
    if (this.step !== before) this.usual = 0;
    return this.step !== before;
  }
}
