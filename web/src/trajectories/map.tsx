// The map: streets on one canvas, redrawn when the map moves; everything that moves on another, every frame.
import { type PointerEvent, useEffect, useRef } from "react";
import { sharpened } from "../shared/canvas";
import { colour, useTheme } from "../shared/theme";
import { drawScale, View } from "../shared/view";
import { type DataSet, type Film, type Line, type Movement, Places, type Streets } from "./data";

export interface Clock {
  time: number;
  speed: number;
  playing: boolean;
}

interface Props {
  set: DataSet;
  streets: Streets | undefined;
  film: Film;
  clock: React.RefObject<Clock>;
  onTime: (time: number) => void;
  chosen: number | undefined;
  onChoose: (vehicle: number | undefined) => void;
  path: Line[];
  drawing: boolean;
  /** where the map begins: x, y and pixels per metre */
  start: readonly number[] | undefined;
  /** called when the map has been moved and rests */
  onView: (view: readonly number[]) => void;
  region: Line;
  onRegion: (region: Line) => void;
  marked: ReadonlySet<number>;
  points: Line;
  lines: Line[];
}

export function JourneyMap(props: Props) {
  const back = useRef<HTMLCanvasElement>(null);
  const front = useRef<HTMLCanvasElement>(null);
  const now = useRef(props);
  now.current = props;
  const view = useRef<View>(undefined);
  if (view.current?.box !== props.set.box) view.current = new View(props.set.box);
  const stale = useRef(true);
  const places = useRef(new Places(0));
  const theme = useTheme();
  const { set, streets, film } = props;

  useEffect(() => {
    places.current = new Places(set.vehicles.length);
  }, [set]);
  useEffect(() => {
    const [b, f] = [back.current, front.current];
    const [bc, fc] = [b?.getContext("2d"), f?.getContext("2d")];
    const v = view.current;
    if (!b || !f || !bc || !fc || !v) return;
    stale.current = true;
    let [fitted, last] = [false, performance.now()];
    let drawn: { props: Props; piece: Movement | undefined; time: number } | undefined;
    const ink = { main: colour("dim"), car: colour("accent"), still: colour("dim"), mark: colour("mark"), alarm: colour("alarm"), soft: colour("soft"), back: colour("panel"), good: colour("good") };
    let wanted = requestAnimationFrame(function draw(at: number) {
      wanted = requestAnimationFrame(draw);
      const p = now.current;
      if ([sharpened(b, bc), sharpened(f, fc)].includes(true)) {
        if (!fitted && !(p.start && v.restore(p.start))) v.fit(b.clientWidth, b.clientHeight);
        fitted = true;
        stale.current = true;
      }
      const clock = p.clock.current;
      const passed = Math.min(0.1, (at - last) / 1000);
      last = at;
      const piece = film.at(clock.time);
      if (clock.playing && piece) p.onTime(Math.min(set.end, clock.time + passed * clock.speed));
      if (drawn && !stale.current && drawn.props === p && drawn.piece === piece && drawn.time === clock.time) return;
      if (stale.current && streets) {
        drawStreets(bc, v, streets, ink);
        stale.current = false;
      }
      drawn = { props: p, piece, time: clock.time };
      if (piece) places.current.look(piece, clock.time);
      drawMoving(fc, v, p, piece, places.current, ink);
    });
    return () => cancelAnimationFrame(wanted);
  }, [set, streets, film, theme]);

  // links have the place where the map rests
  const resting = useRef<number>(undefined);
  const moved = () => {
    stale.current = true;
    window.clearTimeout(resting.current);
    resting.current = window.setTimeout(() => {
      const v = view.current;
      if (v) now.current.onView([v.x, v.y, v.scale]);
    }, 300);
  };
  const held = useRef<{ x: number; y: number; moved: boolean }>(undefined);
  const at = (event: { clientX: number; clientY: number; currentTarget: Element }): [number, number] => {
    const box = event.currentTarget.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const pick = (px: number, py: number) => {
    const [v, here] = [view.current, places.current];
    if (!v) return;
    let [best, distance] = [-1, 14];
    for (let i = 0; i < here.x.length; i++) {
      const d = Math.hypot(v.px(here.x[i] ?? NaN) - px, v.py(here.y[i] ?? NaN) - py);
      // moving vehicles first: many are parked at one place
      const felt = d + (here.moving[i] ? 0 : 4);
      if (felt < distance) [best, distance] = [i, felt];
    }
    props.onChoose(best < 0 ? undefined : best);
  };
  useEffect(() => {
    const f = front.current;
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const box = f?.getBoundingClientRect();
      if (!box) return;
      view.current?.zoom(event.clientX - box.left, event.clientY - box.top, Math.exp(-event.deltaY * 0.0015));
      moved();
    };
    f?.addEventListener("wheel", onWheel, { passive: false });
    return () => f?.removeEventListener("wheel", onWheel);
  }, []);
  const move = (dx: number, dy: number) => {
    const v = view.current;
    if (!v) return;
    v.move(dx, dy);
    moved();
  };
  return (
    <div className="journey-map">
      <Legend marked={props.marked.size > 0} chosen={props.chosen !== undefined} answered={props.points.length + props.lines.length > 0} />
      <canvas ref={back} aria-hidden="true" />
      <canvas
        ref={front}
        tabIndex={0}
        role="img"
        className={props.drawing ? "draws" : ""}
        aria-label="Map of the journeys. Arrow keys move it, plus and minus zoom, 0 shows all."
        onKeyDown={(event) => {
          const steps: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
          const step = steps[event.key];
          const { clientWidth: w, clientHeight: h } = event.currentTarget;
          if (step) move(...step);
          else if (event.key === "+" || event.key === "=") view.current?.zoom(w / 2, h / 2, 1.25);
          else if (event.key === "-") view.current?.zoom(w / 2, h / 2, 0.8);
          else if (event.key === "0") view.current?.fit(w, h);
          else return;
          moved();
          event.preventDefault();
        }}
        onPointerDown={(event: PointerEvent<HTMLCanvasElement>) => {
          const [x, y] = at(event);
          held.current = { x, y, moved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
          if (props.drawing && view.current) props.onRegion([view.current.metres(x, y)]);
        }}
        onPointerMove={(event) => {
          const h = held.current;
          if (!h || !view.current) return;
          const [x, y] = at(event);
          if (Math.hypot(x - h.x, y - h.y) < 3 && !h.moved) return;
          if (props.drawing) {
            const last = props.region.at(-1);
            const far = !last || Math.hypot(view.current.px(last[0]) - x, view.current.py(last[1]) - y) > 6;
            if (far && props.region.length < 400) props.onRegion([...props.region, view.current.metres(x, y)]);
            h.moved = true;
          } else {
            move(x - h.x, y - h.y);
            held.current = { x, y, moved: true };
          }
        }}
        onPointerUp={(event) => {
          if (!props.drawing && held.current && !held.current.moved) pick(...at(event));
          if (props.drawing && props.region.length < 3) props.onRegion([]);
          held.current = undefined;
        }}
      />
    </div>
  );
}

function Legend({ marked, chosen, answered }: { marked: boolean; chosen: boolean; answered: boolean }) {
  return (
    <ul className="key" aria-hidden="true">
      <li className="moves">on its way</li>
      <li className="rests">standing</li>
      {marked && <li className="marked">found</li>}
      {chosen && <li className="chosen">picked, and where it went</li>}
      {answered && <li className="answer">place in the answer</li>}
    </ul>
  );
}

type Ink = Record<"main" | "car" | "still" | "mark" | "alarm" | "soft" | "back" | "good", string>;

function ready(c: CanvasRenderingContext2D): void {
  c.clearRect(0, 0, c.canvas.clientWidth, c.canvas.clientHeight);
  c.lineJoin = c.lineCap = "round";
}

/** Streets; faster ones are bolder. */
function drawStreets(c: CanvasRenderingContext2D, v: View, streets: Streets, ink: Ink): void {
  ready(c);
  const classes: [number, number, number, string, number][] = [
    [0, 40, 0.7, ink.main, 0.25],
    [40, 60, 1.1, ink.main, 0.36],
    [60, Infinity, 1.8, ink.main, 0.5],
  ];
  for (const [low, high, width, stroke, alpha] of classes) {
    c.beginPath();
    for (let s = 0; s < streets.speed.length; s++) {
      const speed = streets.speed[s] ?? 0;
      if (speed < low || speed >= high) continue;
      const [first, last] = [streets.offsets[s] ?? 0, streets.offsets[s + 1] ?? 0];
      for (let i = first; i < last; i++) {
        const [x, y] = [v.px(streets.x[i] ?? 0), v.py(streets.y[i] ?? 0)];
        if (i === first) c.moveTo(x, y);
        else c.lineTo(x, y);
      }
    }
    c.globalAlpha = alpha;
    c.strokeStyle = stroke;
    c.lineWidth = width * Math.min(3, Math.max(0.6, v.scale * 30));
    c.stroke();
  }
  c.globalAlpha = 1;
  drawScale(c, v.scale, ink.main);
}

function trace(c: CanvasRenderingContext2D, v: View, line: Line): void {
  line.forEach(([x, y], i) => (i ? c.lineTo(v.px(x), v.py(y)) : c.moveTo(v.px(x), v.py(y))));
}

function drawMoving(c: CanvasRenderingContext2D, v: View, p: Props, piece: Movement | undefined, here: Places, ink: Ink): void {
  ready(c);
  c.beginPath();
  for (const line of p.path) trace(c, v, line);
  c.strokeStyle = ink.mark;
  c.globalAlpha = 0.55;
  c.lineWidth = 2;
  c.stroke();
  c.globalAlpha = 1;
  c.beginPath();
  for (const line of p.lines) trace(c, v, line);
  c.strokeStyle = ink.good;
  c.lineWidth = 3;
  c.stroke();
  if (p.region.length > 0) {
    c.beginPath();
    trace(c, v, p.region);
    c.closePath();
    c.fillStyle = ink.soft;
    c.fill();
    c.strokeStyle = ink.car;
    c.setLineDash(p.drawing ? [5, 4] : []);
    c.lineWidth = 1.6;
    c.stroke();
    c.setLineDash([]);
  }
  if (piece && v.scale * TRAIL > 1) trails(c, v, piece, p.clock.current.time - piece.begin, here, ink.car);
  // when zoomed out, many vehicles overlap: small and translucent, they show density
  const r = Math.min(4.5, 1 + 60 * v.scale);
  dots(c, v, here, (i) => !here.moving[i] && !p.marked.has(i), ink.still, 0.7 * r, 0.5);
  dots(c, v, here, (i) => here.moving[i] === 1 && !p.marked.has(i), ink.car, r, Math.min(1, r / 2));
  dots(c, v, here, (i) => p.marked.has(i), ink.alarm, 1.4 * r, 1);
  for (const [x, y] of p.points) star(c, v.px(x), v.py(y), ink.good);
  if (p.chosen !== undefined && !Number.isNaN(here.x[p.chosen] ?? NaN)) {
    c.beginPath();
    c.arc(v.px(here.x[p.chosen] ?? 0), v.py(here.y[p.chosen] ?? 0), 6, 0, 2 * Math.PI);
    c.fillStyle = ink.mark;
    c.strokeStyle = ink.back;
    c.lineWidth = 2;
    c.fill();
    c.stroke();
  }
}

/** The length of the trail of a moving vehicle in seconds; the newest third is three times as bright. */
const TRAIL = 120;

function trails(c: CanvasRenderingContext2D, v: View, film: Movement, now: number, here: Places, stroke: string): void {
  c.strokeStyle = stroke;
  c.lineWidth = 2;
  c.globalAlpha = 0.22;
  for (const share of [1, 2 / 3, 1 / 3]) {
    const since = now - TRAIL * share;
    c.beginPath();
    for (let i = 0; i < here.x.length; i++) {
      if (!here.moving[i]) continue;
      const first = film.offsets[here.sequence[i] ?? 0] ?? 0;
      c.moveTo(v.px(here.x[i] ?? 0), v.py(here.y[i] ?? 0));
      for (let k = here.vertex[i] ?? 0; k >= first && (film.t[k] ?? 0) > since; k--) c.lineTo(v.px(film.x[k] ?? 0), v.py(film.y[k] ?? 0));
    }
    c.stroke();
  }
  c.globalAlpha = 1;
}

function dots(c: CanvasRenderingContext2D, v: View, here: Places, wanted: (i: number) => boolean, fill: string, r: number, alpha: number): void {
  c.fillStyle = fill;
  c.globalAlpha = alpha;
  c.beginPath();
  for (let i = 0; i < here.x.length; i++) {
    if (Number.isNaN(here.x[i] ?? NaN) || !wanted(i)) continue;
    const [x, y] = [v.px(here.x[i] ?? 0), v.py(here.y[i] ?? 0)];
    // at two pixels, squares look like dots and are cheaper
    if (r < 1.5) c.rect(x - r, y - r, 2 * r, 2 * r);
    else {
      c.moveTo(x + r, y);
      c.arc(x, y, r, 0, 2 * Math.PI);
    }
  }
  c.fill();
  c.globalAlpha = 1;
}

function star(c: CanvasRenderingContext2D, x: number, y: number, fill: string): void {
  c.fillStyle = fill;
  c.beginPath();
  for (let i = 0; i < 10; i++) {
    const [r, a] = [i % 2 ? 3.2 : 7.5, (Math.PI / 5) * i - Math.PI / 2];
    if (i) c.lineTo(x + r * Math.cos(a), y + r * Math.sin(a));
    else c.moveTo(x + r * Math.cos(a), y + r * Math.sin(a));
  }
  c.closePath();
  c.fill();
}
