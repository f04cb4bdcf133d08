// An editable QoS graph: drag points, double-click to add one, Delete to remove one.
import { type KeyboardEvent, type PointerEvent, useRef, useState } from "react";
import type { Points } from "./model";

const [W, H] = [268, 120];
const PAD = { left: 34, right: 12, top: 8, bottom: 18 };

interface Props {
  title: string;
  unit: string;
  points: Points;
  /** fixed ends of the axis; by default it follows the points */
  range?: [number, number];
  onChange: (points: Points) => void;
}

export function QosGraph({ title, unit, points, range, onChange }: Props) {
  const svg = useRef<SVGSVGElement>(null);
  const [held, setHeld] = useState<{ index: number; range: [number, number] }>();
  const [low, high] = held?.range ?? range ?? rangeOf(points);
  const step = niceStep(high - low);
  const px = (x: number) => PAD.left + ((x - low) / (high - low)) * (W - PAD.left - PAD.right);
  const py = (y: number) => PAD.top + (1 - y) * (H - PAD.top - PAD.bottom);
  const at = (event: { clientX: number; clientY: number }): [number, number] => {
    const box = svg.current?.getBoundingClientRect();
    if (!box) return [0, 0];
    const x = low + (((event.clientX - box.left) * (W / box.width) - PAD.left) / (W - PAD.left - PAD.right)) * (high - low);
    const y = 1 - ((event.clientY - box.top) * (H / box.height) - PAD.top) / (H - PAD.top - PAD.bottom);
    return [round(Math.max(low, Math.min(high, x)), step), round(Math.max(0, Math.min(1, y)), 0.02)];
  };
  const place = (index: number, [x, y]: [number, number]) => {
    const [before, after] = [points[index - 1]?.[0], points[index + 1]?.[0]];
    const least = before === undefined ? (range ?? [Math.min(0, low)])[0] : before + step;
    const most = after === undefined ? (range?.[1] ?? Infinity) : after - step;
    if (least > most) return;
    const bounded = round(Math.min(most, Math.max(least, x)), step);
    onChange(points.map((point, i) => (i === index ? [bounded, Math.max(0, Math.min(1, round(y, 0.02)))] : point)));
  };
  const insert = (event: { clientX: number; clientY: number }) => {
    const fresh = at(event);
    if (points.some(([x]) => Math.abs(x - fresh[0]) < step / 2)) return;
    onChange([...points, fresh].sort((a, b) => a[0] - b[0]));
  };
  const onKey = (event: KeyboardEvent, index: number) => {
    const [x, y] = points[index] ?? [0, 0];
    const moves: Record<string, [number, number]> = { ArrowLeft: [x - step, y], ArrowRight: [x + step, y], ArrowUp: [x, y + 0.02], ArrowDown: [x, y - 0.02] };
    const moved = moves[event.key];
    if (moved) place(index, moved);
    else if ((event.key === "Delete" || event.key === "Backspace") && points.length > 1) onChange(points.filter((_, i) => i !== index));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const drawn: Points = [[low, points[0]?.[1] ?? 1], ...points, [high, points.at(-1)?.[1] ?? 0]];
  const path = drawn.map(([x, y]) => `${px(x)},${py(y)}`).join(" ");
  return (
    <figure className="qos">
      <figcaption>
        {title} <span className="dim">{unit}</span>
      </figcaption>
      <svg
        ref={svg}
        viewBox={`0 0 ${W} ${H}`}
        role="group"
        aria-label={`${title}: double-click to add a point`}
        onDoubleClick={insert}
        onPointerMove={(event: PointerEvent) => held && place(held.index, at(event))}
        onPointerUp={() => setHeld(undefined)}
      >
        {[0, 0.5, 1].map((y) => (
          <g key={y}>
            <line className="grid" x1={PAD.left} x2={W - PAD.right} y1={py(y)} y2={py(y)} />
            <text x={PAD.left - 10} y={py(y) + 3.5} textAnchor="end">
              {y}
            </text>
          </g>
        ))}
        {[low, (low + high) / 2, high].map((x) => (
          <text key={x} x={px(x)} y={H - 4} textAnchor={x === low ? "start" : x === high ? "end" : "middle"}>
            {+x.toPrecision(4)}
          </text>
        ))}
        <polygon className="area" points={`${px(low)},${py(0)} ${path} ${px(high)},${py(0)}`} />
        <polyline points={path} />
        {points.map(([x, y], index) => (
          <circle
            key={index}
            cx={px(x)}
            cy={py(y)}
            r={5.5}
            tabIndex={0}
            role="slider"
            aria-label={`Point ${index + 1} of ${title}`}
            aria-valuenow={y}
            aria-valuemin={0}
            aria-valuemax={1}
            aria-valuetext={`utility ${y} at ${x}`}
            onPointerDown={(event) => {
              (event.target as Element).setPointerCapture(event.pointerId);
              setHeld({ index, range: [low, high] });
            }}
            onKeyDown={(event) => onKey(event, index)}
          >
            <title>{`${x} → ${y}`}</title>
          </circle>
        ))}
      </svg>
    </figure>
  );
}

function rangeOf(points: Points): [number, number] {
  const xs = points.map(([x]) => x);
  const [first, last] = [Math.min(0, ...xs), Math.max(...xs)];
  return [first, last > first ? last + (last - first) * 0.25 : first + 1];
}

function niceStep(span: number): number {
  const rough = span / 100;
  const ten = 10 ** Math.floor(Math.log10(rough || 1));
  return ([1, 2, 5].find((m) => m * ten >= rough) ?? 10) * ten;
}

const round = (value: number, step: number): number => +(Math.round(value / step) * step).toFixed(10);
