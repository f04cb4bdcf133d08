// Which part of a plane a map shows: metres to pixels, and back.
export type Box = readonly [number, number, number, number];

export class View {
  x = 0;
  y = 0;
  scale = 1;
  constructor(readonly box: Box) {}
  fit(width: number, height: number, [x0, y0, x1, y1]: Box = this.box): void {
    this.scale = Math.min(20, 0.92 * Math.min(width / Math.max(1, x1 - x0), height / Math.max(1, y1 - y0)));
    this.x = (x0 + x1) / 2 - width / 2 / this.scale;
    this.y = (y0 + y1) / 2 + height / 2 / this.scale;
  }
  px = (x: number): number => (x - this.x) * this.scale;
  py = (y: number): number => (this.y - y) * this.scale;
  metres = (px: number, py: number): [number, number] => [this.x + px / this.scale, this.y - py / this.scale];
  /** Show what a link shows; returns whether it is anything. */
  restore([x, y, scale]: readonly number[]): boolean {
    if (x === undefined || y === undefined || !scale || scale <= 0) return false;
    [this.x, this.y, this.scale] = [x, y, Math.min(20, Math.max(1e-5, scale))];
    return true;
  }
  move(dx: number, dy: number): void {
    this.x -= dx / this.scale;
    this.y += dy / this.scale;
  }
  zoom(px: number, py: number, by: number): void {
    const [x, y] = this.metres(px, py);
    this.scale = Math.min(20, Math.max(1e-5, this.scale * by));
    this.x = x - px / this.scale;
    this.y = y + py / this.scale;
  }
}

/** The length of about a hundred pixels; `stretch` is how much longer the plane is than the ground there. */
export function drawScale(c: CanvasRenderingContext2D, scale: number, ink: string, stretch = 1): void {
  const perMetre = scale * stretch;
  const ten = 10 ** Math.floor(Math.log10(140 / perMetre));
  const metres = ([5, 2].find((n) => n * ten * perMetre <= 140) ?? 1) * ten;
  const [right, y] = [c.canvas.clientWidth - 16, c.canvas.clientHeight - 16];
  const left = right - metres * perMetre;
  c.strokeStyle = c.fillStyle = ink;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(left, y - 5);
  c.lineTo(left, y);
  c.lineTo(right, y);
  c.lineTo(right, y - 5);
  c.stroke();
  c.font = "12px 'Overpass Mono Variable', monospace";
  c.textAlign = "center";
  c.fillText(metres < 1000 ? `${metres} m` : `${metres / 1000} km`, (left + right) / 2, y - 8);
}
