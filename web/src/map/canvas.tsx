// The map: streets and zones on one canvas, what moves on another, what is selected on a third.
import { type PointerEvent, useEffect, useRef } from "react";
import { sharpened } from "../shared/canvas";
import { colour, useTheme } from "../shared/theme";
import { type Box, View } from "../shared/view";
import { byEdge, drawBelow, type StreetValues, Tiles } from "./basemap";
import type { Roads, Zone } from "./data";
import { drawPoints } from "./drawing";
import { Budget, Pixels } from "./paint";
import { range, type Shades } from "./shades";
import type { Attribute, Tracks } from "./tracks";

export interface Clock {
  time: number;
  speed: number;
  playing: boolean;
}

/** What the last frames were like. */
export interface Frames {
  /** how many are anywhere */
  there: number;
  step: number;
  perSecond: number;
}

interface Props {
  /** what the map is about: another one shows all of it again */
  subject: string;
  tracks: Tracks | undefined;
  pass: Uint8Array | undefined;
  shades: Shades;
  density: boolean;
  tail: number;
  roads: Roads | undefined;
  zones: readonly Zone[];
  tiles: string;
  /** what streets are coloured by: values as they are, or the mean of an attribute of positions on them */
  street: StreetValues | Attribute | undefined;
  clock: React.RefObject<Clock>;
  /** called every frame with the seconds since the last one */
  onTick: (seconds: number) => void;
  onFrames: (frames: Frames) => void;
  chosen: string | undefined;
  onChoose: (owner: string | undefined) => void;
  selecting: boolean;
  area: readonly number[] | undefined;
  onArea: (area: readonly number[] | undefined) => void;
  start: readonly number[] | undefined;
  onView: (view: readonly number[]) => void;
}

/** Seconds before now from which streets get their values. */
export const STREET_PERIOD = 600;
const EARTH = 6_378_137;

function worldBox(p: Props): Box {
  if (p.tracks && p.tracks.count > 0) return p.tracks.box;
  if (p.roads) return roadsBox(p.roads);
  return [-1, -1, 1, 1];
}

function roadsBox({ x, y, origin }: Roads): Box {
  const box = [Infinity, Infinity, -Infinity, -Infinity] as [number, number, number, number];
  for (let i = 0; i < x.length; i++) {
    const [a, b] = [(x[i] ?? 0) + origin[0], (y[i] ?? 0) + origin[1]];
    [box[0], box[1], box[2], box[3]] = [Math.min(box[0], a), Math.min(box[1], b), Math.max(box[2], a), Math.max(box[3], b)];
  }
  return box;
}

/** Everything that is drawn, between frames. */
class Painter {
  readonly view = new View([-1, -1, 1, 1]);
  readonly pixels = new Pixels();
  readonly budget = new Budget();
  fitted = "";
  stale = true;
  private values: { time: number; table: unknown; of: unknown; found: StreetValues } | undefined;
  private frames = { count: 0, since: 0, perSecond: 0, reported: 0 };
  private last: { props: Props; time: number } | undefined;

  /** Show all of it, or what the link says, once something is there to show. */
  settle(p: Props, width: number, height: number): void {
    const ready = (p.tracks && p.tracks.count > 0) || p.roads;
    if (this.fitted === p.subject || !ready || !width) return;
    const first = this.fitted === "";
    if (!(first && p.start && this.view.restore(p.start))) this.view.fit(width, height, worldBox(p));
    this.fitted = p.subject;
    this.stale = true;
  }

  below(c: CanvasRenderingContext2D, p: Props, tiles: Tiles | undefined, time: number): void {
    const values = this.findValues(p, time);
    if (!this.stale) return;
    const ink = { dim: colour("dim"), zone: colour("alarm") };
    const earth = p.tracks ? p.tracks.table.world === "earth" : p.roads?.world === "earth";
    const middle = this.view.y - c.canvas.clientHeight / 2 / this.view.scale;
    drawBelow(c, this.view, { roads: p.roads, zones: p.zones, tiles: earth ? tiles : undefined, values }, earth ? Math.cosh(middle / EARTH) : 1, ink);
    this.stale = false;
  }

  /** The values of streets, computed again when a few seconds have passed. */
  private findValues(p: Props, time: number): StreetValues | undefined {
    const { street } = p;
    if (!street || "of" in street) {
      this.stale ||= this.values?.of !== street;
      this.values = street && { time, table: undefined, of: street, found: street };
      return street;
    }
    const table = p.tracks?.table;
    const edges = table?.attributes.find((one) => one.name === "edge");
    if (!table || !edges) return undefined;
    const known = this.values;
    if (known && known.of === street && known.table === table && Math.abs(known.time - time) < STREET_PERIOD / 20) return known.found;
    this.stale = true;
    const means = byEdge(table, edges.values, street.values, time - STREET_PERIOD, time);
    this.values = { time, table, of: street, found: { of: means, range: range(street.values) } };
    return this.values.found;
  }

  /** Whether anything has changed since the last frame. */
  isOld(p: Props): boolean {
    const time = p.clock.current.time;
    if (this.last && !this.stale && this.last.props === p && this.last.time === time) return false;
    this.last = { props: p, time };
    return true;
  }

  points(c: CanvasRenderingContext2D, p: Props, ratio: number, now: number): void {
    const { tracks, clock } = p;
    const time = clock.current.time;
    const before = performance.now();
    const there = tracks?.look(time, p.pass) ?? 0;
    this.pixels.clear(c.canvas.width, c.canvas.height);
    const look = { shades: p.shades, density: p.density, tail: p.tail, step: this.budget.step };
    if (tracks) drawPoints(this.pixels, tracks, this.view, ratio, time, look);
    this.pixels.show(c);
    if (clock.current.playing) this.budget.note(performance.now() - before);
    this.count(p, now, { there, step: this.budget.step, perSecond: 0 });
  }

  private count(p: Props, now: number, frames: Frames): void {
    const f = this.frames;
    f.count++;
    if (now - f.since > 1000) {
      f.perSecond = f.since ? (1000 * f.count) / (now - f.since) : 0;
      [f.count, f.since] = [0, now];
    }
    if (now - f.reported < 400 && p.clock.current.playing) return;
    f.reported = now;
    p.onFrames({ ...frames, perSecond: p.clock.current.playing ? f.perSecond : 0 });
  }

  front(c: CanvasRenderingContext2D, p: Props): void {
    const v = this.view;
    c.clearRect(0, 0, c.canvas.clientWidth, c.canvas.clientHeight);
    if (p.area) {
      const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = p.area;
      c.strokeStyle = colour("accent");
      c.fillStyle = colour("soft");
      c.setLineDash([5, 4]);
      c.lineWidth = 1.6;
      c.fillRect(v.px(x0), v.py(y1), (x1 - x0) * v.scale, (y1 - y0) * v.scale);
      c.strokeRect(v.px(x0), v.py(y1), (x1 - x0) * v.scale, (y1 - y0) * v.scale);
      c.setLineDash([]);
    }
    if (p.chosen !== undefined && p.tracks) this.mark(c, p.tracks, p.chosen);
  }

  /** The chosen one: its way so far, and where it is. */
  private mark(c: CanvasRenderingContext2D, tracks: Tracks, owner: string): void {
    const { table } = tracks;
    const v = this.view;
    c.strokeStyle = colour("mark");
    c.lineWidth = 2;
    for (let k = 0; k < tracks.count; k++) {
      if (tracks.name(k) !== owner) continue;
      c.beginPath();
      for (let i = table.rows[k] ?? 0; i < (table.rows[k + 1] ?? 0); i++) c.lineTo(v.px((table.x[i] ?? 0) + table.origin[0]), v.py((table.y[i] ?? 0) + table.origin[1]));
      c.globalAlpha = 0.5;
      c.stroke();
      c.globalAlpha = 1;
      if (!tracks.shown[k]) continue;
      c.beginPath();
      c.arc(v.px((tracks.x[k] ?? 0) + table.origin[0]), v.py((tracks.y[k] ?? 0) + table.origin[1]), 8, 0, 2 * Math.PI);
      c.lineWidth = 3;
      c.stroke();
      c.lineWidth = 2;
    }
  }
}

export function MapCanvas(props: Props) {
  const back = useRef<HTMLCanvasElement>(null);
  const middle = useRef<HTMLCanvasElement>(null);
  const front = useRef<HTMLCanvasElement>(null);
  const now = useRef(props);
  now.current = props;
  const painter = useRef<Painter>(undefined);
  painter.current ??= new Painter();
  const theme = useTheme();
  const { roads, zones, tiles, tracks } = props;
  useEffect(() => {
    if (painter.current) painter.current.stale = true;
  }, [roads, zones, tiles, tracks, theme]);
  useEffect(() => {
    const all = [back.current, middle.current, front.current].map((canvas) => ({ canvas, context: canvas?.getContext("2d") }));
    const [b, m, f] = all;
    const paint = painter.current;
    if (!b?.canvas || !b.context || !m?.canvas || !m.context || !f?.canvas || !f.context || !paint) return;
    const [bc, mc, fc] = [b.context, m.context, f.context];
    const shown = tiles ? new Tiles(tiles, () => (paint.stale = true)) : undefined;
    let last = performance.now();
    let wanted = requestAnimationFrame(function draw(at: number) {
      wanted = requestAnimationFrame(draw);
      const p = now.current;
      if ([sharpened(bc.canvas, bc), sharpened(mc.canvas, mc), sharpened(fc.canvas, fc)].includes(true)) paint.stale = true;
      paint.settle(p, bc.canvas.clientWidth, bc.canvas.clientHeight);
      p.onTick(Math.min(0.1, (at - last) / 1000));
      last = at;
      if (!paint.isOld(p)) return;
      paint.below(bc, p, shown, p.clock.current.time);
      paint.points(mc, p, devicePixelRatio, at);
      paint.front(fc, p);
    });
    return () => cancelAnimationFrame(wanted);
  }, [tiles, theme]);
  const resting = useRef<number>(undefined);
  const moved = () => {
    const paint = painter.current;
    if (!paint) return;
    paint.stale = true;
    window.clearTimeout(resting.current);
    resting.current = window.setTimeout(() => now.current.onView([paint.view.x, paint.view.y, paint.view.scale]), 300);
  };
  useEffect(() => {
    const place = front.current;
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      painter.current?.view.zoom(event.offsetX, event.offsetY, Math.exp(-event.deltaY * 0.0015));
      moved();
    };
    place?.addEventListener("wheel", onWheel, { passive: false });
    return () => place?.removeEventListener("wheel", onWheel);
  }, []);
  return (
    <div className="live-map">
      <canvas ref={back} aria-hidden="true" />
      <canvas ref={middle} aria-hidden="true" />
      <Touched canvas={front} painter={painter} props={props} moved={moved} />
    </div>
  );
}

interface TouchedProps {
  canvas: React.RefObject<HTMLCanvasElement | null>;
  painter: React.RefObject<Painter | undefined>;
  props: Props;
  moved: () => void;
}

/** The canvas on top: drag to move or to select an area, click to choose, keys for all of it, two fingers to zoom. */
function Touched({ canvas, painter, props, moved }: TouchedProps) {
  const held = useRef(new Map<number, { x: number; y: number }>());
  const began = useRef<{ x: number; y: number; moved: boolean }>(undefined);
  const view = () => painter.current?.view;
  const at = (event: PointerEvent) => ({ x: event.nativeEvent.offsetX, y: event.nativeEvent.offsetY });
  const choose = (x: number, y: number) => {
    const [v, tracks] = [view(), props.tracks];
    if (!v || !tracks) return;
    const track = tracks.nearest(...v.metres(x, y), 14 / v.scale);
    props.onChoose(track === undefined ? undefined : tracks.name(track));
  };
  const select = (x0: number, y0: number, x1: number, y1: number) => {
    const v = view();
    if (!v) return;
    const [[ax, ay], [bx, by]] = [v.metres(x0, y0), v.metres(x1, y1)];
    props.onArea([Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by)]);
  };
  const pinch = (id: number, here: { x: number; y: number }) => {
    const other = [...held.current].find(([one]) => one !== id)?.[1];
    const before = held.current.get(id);
    if (!other || !before) return false;
    const far = (p: { x: number; y: number }) => Math.max(1, Math.hypot(p.x - other.x, p.y - other.y));
    view()?.zoom((here.x + other.x) / 2, (here.y + other.y) / 2, far(here) / far(before));
    held.current.set(id, here);
    moved();
    return true;
  };
  const onKey = (event: React.KeyboardEvent<HTMLCanvasElement>) => {
    const steps: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const [step, v] = [steps[event.key], view()];
    const { clientWidth: w, clientHeight: h } = event.currentTarget;
    if (step) v?.move(...step);
    else if (event.key === "+" || event.key === "=") v?.zoom(w / 2, h / 2, 1.25);
    else if (event.key === "-") v?.zoom(w / 2, h / 2, 0.8);
    else if (event.key === "0") v?.fit(w, h, worldBox(props));
    else if (event.key === "Escape") props.onChoose(undefined);
    else return;
    moved();
    event.preventDefault();
  };
  return (
    <canvas
      ref={canvas}
      tabIndex={0}
      role="img"
      className={props.selecting ? "selects" : ""}
      aria-label="Map. Arrow keys move it, plus and minus zoom, 0 shows all, Escape lets go of what is chosen."
      onKeyDown={onKey}
      onPointerDown={(event) => {
        const here = at(event);
        held.current.set(event.pointerId, here);
        began.current = held.current.size === 1 ? { ...here, moved: false } : undefined;
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        const before = held.current.get(event.pointerId);
        const here = at(event);
        if (!before || pinch(event.pointerId, here)) return;
        const from = began.current;
        if (!from || (!from.moved && Math.hypot(here.x - from.x, here.y - from.y) < 3)) return;
        from.moved = true;
        if (props.selecting) select(from.x, from.y, here.x, here.y);
        else {
          view()?.move(here.x - before.x, here.y - before.y);
          moved();
        }
        held.current.set(event.pointerId, here);
      }}
      onPointerUp={(event) => {
        held.current.delete(event.pointerId);
        if (began.current && !began.current.moved) choose(began.current.x, began.current.y);
        began.current = undefined;
      }}
      onPointerCancel={(event) => held.current.delete(event.pointerId)}
    />
  );
}
