// The map of the city: a canvas, redrawn when something changes, at most once per frame.
import { type KeyboardEvent, type PointerEvent, useCallback, useEffect, useRef, useState } from "react";
import { get } from "../shared/api";
import { sharpened } from "../shared/canvas";
import { count } from "../shared/format";
import { colour, useTheme } from "../shared/theme";
import { blend, drawCity, drawRoad, type Frame, frameOf, type Ink, type Measure, paint, placeAt, roadPlaceAt } from "./draw";
import type { Live } from "./live";
import { type Cars, type Grid, HEADING, NOBODY, type Place, SEGMENTS } from "./types";

const FADE_MS = 350;

interface Props {
  live: Live;
  measure: Measure;
  zoomed: number | undefined;
  chosen: Place | undefined;
  onChoose: (place: Place | undefined) => void;
  onZoom: (xway: number | undefined) => void;
}

/** The state of the drawing loop between two frames. */
class Scene {
  grid: Grid | undefined;
  from: ImageData | undefined;
  to: ImageData | undefined;
  between: ImageData | undefined;
  began = 0;
  cells = document.createElement("canvas");
  cars: Cars | undefined;
  carsAt = 0;
  dirty = true;

  take(grid: Grid | undefined, measure: Measure, ink: Ink, fade: boolean): void {
    this.dirty = true;
    if (!grid) {
      this.grid = this.to = this.from = undefined;
      return;
    }
    const rows = grid.xways.length * 2;
    const fresh = new ImageData(SEGMENTS, rows);
    paint(fresh, grid, measure, ink);
    const same = this.to && this.to.height === rows && fade;
    this.from = same ? this.to : undefined;
    this.to = fresh;
    this.between = same ? new ImageData(SEGMENTS, rows) : undefined;
    this.began = performance.now();
    this.grid = grid;
    if (this.cells.height !== rows) [this.cells.width, this.cells.height] = [SEGMENTS, rows];
  }

  /** Advance the cells to the current time; return whether they still move. */
  step(now: number): boolean {
    const share = Math.min(1, (now - this.began) / FADE_MS);
    const c = this.cells.getContext("2d");
    if (!this.to || !c) return false;
    if (this.from && this.between && share < 1) {
      blend(this.between, this.from, this.to, share);
      c.putImageData(this.between, 0, 0);
      return true;
    }
    c.putImageData(this.to, 0, 0);
    this.from = undefined;
    return false;
  }
}

export function CityMap({ live, measure, zoomed, chosen, onChoose, onZoom }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scene = useRef<Scene>(undefined);
  scene.current ??= new Scene();
  const frame = useRef<Frame>(frameOf(100, 100, 1));
  const [tip, setTip] = useState<{ place: Place; x: number; y: number }>();
  const theme = useTheme();
  const pace = live.state ? paceOf(live.state) : 0;

  const show = useCallback(
    (fade: boolean) => scene.current?.take(live.grid.current, measure, inkOf(), fade),
    [live.grid, measure, theme],
  );
  useEffect(() => {
    show(false);
    return live.onGrid(() => show(true));
  }, [show, live.onGrid]);
  useCars(live, zoomed, scene);

  useEffect(() => {
    const place = canvas.current;
    const s = scene.current;
    const c = place?.getContext("2d");
    if (!place || !c || !s) return;
    const ink = inkOf();
    s.dirty = true;
    let wanted = requestAnimationFrame(function draw(now: number) {
      wanted = requestAnimationFrame(draw);
      if (sharpened(place, c)) s.dirty = true;
      const grid = s.grid;
      if (!grid) {
        if (s.dirty) c.clearRect(0, 0, place.width, place.height);
        s.dirty = false;
        return;
      }
      const moving = s.step(now);
      const road = zoomed !== undefined && s.cars?.xway === zoomed;
      if (!s.dirty && !moving && !(road && pace > 0)) return;
      frame.current = frameOf(place.clientWidth, place.clientHeight, grid.xways.length);
      if (road && s.cars) {
        const at = s.cars.second + 1 + Math.min(3, ((now - s.carsAt) / 1000) * pace);
        drawRoad(c, frame.current, s.cells, grid, s.cars, at, ink, chosen);
      } else drawCity(c, frame.current, s.cells, grid, ink, chosen);
      s.dirty = moving;
    });
    return () => cancelAnimationFrame(wanted);
  }, [theme, zoomed, chosen, pace]);

  const at = (event: PointerEvent<HTMLCanvasElement>): Place | undefined => {
    const grid = live.grid.current;
    if (!grid) return undefined;
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return zoomed === undefined ? placeAt(frame.current, grid, x, y) : roadPlaceAt(frame.current, zoomed, x, y);
  };
  const onKey = (event: KeyboardEvent) => {
    const grid = live.grid.current;
    if (!grid) return;
    if (event.key === "Escape") return chosen ? onChoose(undefined) : onZoom(undefined);
    if (event.key === "Enter" && chosen) return onZoom(zoomed === undefined ? chosen.xway : undefined);
    const next = moved(chosen, event.key, grid);
    if (next) {
      event.preventDefault();
      onChoose(next);
    }
  };
  return (
    <div className="map">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label="Map of the city. Arrow keys select a segment, Enter zooms to its expressway, Escape goes back."
        onKeyDown={onKey}
        onPointerMove={(event) => {
          const place = at(event);
          const box = event.currentTarget.getBoundingClientRect();
          setTip(place && { place, x: event.clientX - box.left, y: event.clientY - box.top });
        }}
        onPointerLeave={() => setTip(undefined)}
        onClick={(event) => {
          const place = at(event as PointerEvent<HTMLCanvasElement>);
          const onLabel = event.clientX - event.currentTarget.getBoundingClientRect().left < frame.current.left;
          if (place && onLabel && zoomed === undefined) onZoom(place.xway);
          else onChoose(place);
        }}
        onDoubleClick={(event) => {
          const place = at(event as unknown as PointerEvent<HTMLCanvasElement>);
          onZoom(zoomed === undefined ? place?.xway : undefined);
        }}
      />
      {tip && live.grid.current && (
        <div className={`tip ${tip.x > frame.current.width - 220 ? "flip" : ""}`} style={{ left: tip.x, top: tip.y }}>
          {describe(live.grid.current, tip.place)}
        </div>
      )}
      <p className="sr" aria-live="polite">
        {chosen && live.grid.current ? describe(live.grid.current, chosen) : ""}
      </p>
    </div>
  );
}

/** Seconds of the run per second of real time on the map. */
function paceOf(state: NonNullable<Live["state"]>): number {
  if (!state.view.follow) return state.view.playing ? state.view.speed : 0;
  return state.status === "running" ? state.speed : 0;
}

function useCars(live: Live, zoomed: number | undefined, scene: React.RefObject<Scene | undefined>): void {
  useEffect(() => {
    const s = scene.current;
    if (zoomed === undefined || !s) return;
    let busy = false;
    let wanted = true;
    const load = () => {
      if (busy) return;
      busy = true;
      get<Cars>(`/api/city/expressways/${zoomed}/cars`)
        .then((cars) => {
          if (wanted) [s.cars, s.carsAt, s.dirty] = [cars, performance.now(), true];
        })
        .catch(() => undefined)
        .finally(() => (busy = false));
    };
    load();
    const stop = live.onGrid(load);
    return () => {
      wanted = false;
      s.cars = undefined;
      s.dirty = true;
      stop();
    };
  }, [zoomed, live.onGrid, scene]);
}

function inkOf(): Ink {
  return { road: colour("road"), text: colour("text"), dim: colour("dim"), line: colour("line"), alarm: colour("alarm"), focus: colour("focus"), back: colour("panel"), dark: document.documentElement.dataset.theme !== "light" };
}

function moved(place: Place | undefined, key: string, grid: Grid): Place | undefined {
  const steps: Record<string, [number, number]> = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  const step = steps[key];
  if (!step) return undefined;
  if (!place) return { xway: grid.xways[0] ?? 0, dir: 0, seg: 0 };
  const line = Math.max(0, grid.xways.indexOf(place.xway)) * 2 + place.dir + step[0];
  const bounded = Math.min(grid.xways.length * 2 - 1, Math.max(0, line));
  const seg = Math.min(SEGMENTS - 1, Math.max(0, place.seg + step[1]));
  return { xway: grid.xways[Math.floor(bounded / 2)] ?? 0, dir: (bounded % 2) as 0 | 1, seg };
}

export function describe(grid: Grid, { xway, dir, seg }: Place): string {
  const i = (grid.xways.indexOf(xway) * 2 + dir) * SEGMENTS + seg;
  const where = `Expressway ${xway} ${HEADING[dir]}, segment ${seg}`;
  if (grid.speed[i] === NOBODY || grid.speed[i] === undefined) return `${where}: no cars`;
  const accident = grid.accident[i] ? ", accident" : "";
  return `${where}: ${count(grid.cars[i] ?? 0)} cars at ${grid.speed[i]} mph, toll ${count(grid.toll[i] ?? 0)}${accident}`;
}
