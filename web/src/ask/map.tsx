// Lines and points on a canvas: drag to move, wheel or + and - to zoom, 0 to see everything.
import { useEffect, useRef } from "react";
import { sharpened } from "../shared/canvas";
import { colour, useTheme } from "../shared/theme";
import type { Drawing } from "./model";

interface View {
  x: number;
  y: number;
  scale: number;
}

function bounds(drawing: Drawing): [number, number, number, number] {
  const box: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
  const add = (x: number, y: number) => {
    box[0] = Math.min(box[0], x);
    box[1] = Math.min(box[1], y);
    box[2] = Math.max(box[2], x);
    box[3] = Math.max(box[3], y);
  };
  for (const [x, y] of drawing.points) add(x, y);
  for (const line of drawing.lines) for (let i = 0; i + 1 < line.length; i += 2) add(line[i] ?? 0, line[i + 1] ?? 0);
  return box;
}

export function ResultMap({ drawing }: { drawing: Drawing }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<View>(undefined);
  const theme = useTheme();
  const draw = useRef<() => void>(() => undefined);
  useEffect(() => {
    const place = canvas.current;
    const context = place?.getContext("2d");
    if (!place || !context) return;
    const [x0, y0, x1, y1] = bounds(drawing);
    // a degree of longitude is shorter than one of latitude
    const squeeze = drawing.isDegrees ? Math.cos((((y0 + y1) / 2) * Math.PI) / 180) : 1;
    const fit = () => {
      const scale = 0.9 * Math.min(place.clientWidth / Math.max(1e-9, (x1 - x0) * squeeze), place.clientHeight / Math.max(1e-9, y1 - y0));
      view.current = { x: (x0 + x1) / 2, y: (y0 + y1) / 2, scale: Number.isFinite(scale) ? Math.min(scale, 1e7) : 1 };
    };
    fit();
    const [ink, mark] = [colour("accent"), colour("mark")];
    draw.current = () => {
      sharpened(place, context);
      const [v, w, h] = [view.current, place.clientWidth, place.clientHeight];
      if (!v) return;
      context.clearRect(0, 0, w, h);
      const px = (x: number) => w / 2 + (x - v.x) * squeeze * v.scale;
      const py = (y: number) => h / 2 - (y - v.y) * v.scale;
      context.strokeStyle = ink;
      context.lineWidth = 1.5;
      context.globalAlpha = 0.7;
      for (const line of drawing.lines) {
        context.beginPath();
        for (let i = 0; i + 1 < line.length; i += 2) context.lineTo(px(line[i] ?? 0), py(line[i + 1] ?? 0));
        context.stroke();
      }
      context.fillStyle = mark;
      for (const [x, y] of drawing.points) context.fillRect(px(x) - 2, py(y) - 2, 4, 4);
      context.globalAlpha = 1;
    };
    draw.current();
    const zoom = (by: number) => {
      if (view.current) view.current.scale *= by;
      draw.current();
    };
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * 0.0015));
    };
    const onKey = (event: KeyboardEvent) => {
      const steps: Record<string, [number, number]> = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      const step = steps[event.key];
      if (step && view.current) {
        view.current.x += step[0] / squeeze / view.current.scale;
        view.current.y += step[1] / view.current.scale;
        draw.current();
      } else if (event.key === "+") zoom(1.5);
      else if (event.key === "-") zoom(1 / 1.5);
      else if (event.key === "0") {
        fit();
        draw.current();
      }
      else return;
      event.preventDefault();
    };
    let held: { x: number; y: number } | undefined;
    const onDown = (event: PointerEvent) => {
      held = { x: event.clientX, y: event.clientY };
      place.setPointerCapture(event.pointerId);
    };
    const onMove = (event: PointerEvent) => {
      if (!held || !view.current) return;
      view.current.x -= (event.clientX - held.x) / squeeze / view.current.scale;
      view.current.y += (event.clientY - held.y) / view.current.scale;
      held = { x: event.clientX, y: event.clientY };
      draw.current();
    };
    const onUp = () => (held = undefined);
    const resized = new ResizeObserver(() => draw.current());
    resized.observe(place);
    place.addEventListener("wheel", onWheel, { passive: false });
    place.addEventListener("keydown", onKey);
    place.addEventListener("pointerdown", onDown);
    place.addEventListener("pointermove", onMove);
    place.addEventListener("pointerup", onUp);
    return () => {
      resized.disconnect();
      place.removeEventListener("wheel", onWheel);
      place.removeEventListener("keydown", onKey);
      place.removeEventListener("pointerdown", onDown);
      place.removeEventListener("pointermove", onMove);
      place.removeEventListener("pointerup", onUp);
    };
  }, [drawing, theme]);
  return <canvas ref={canvas} tabIndex={0} role="img" aria-label={`Map of the result: ${drawing.lines.length} lines, ${drawing.points.length} points. Arrow keys move it, plus and minus zoom, 0 shows all.`} />;
}
