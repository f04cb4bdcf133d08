// uPlot in React: recreated when its configuration changes, updated with data, as wide as its container.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "./format";
import { colour, useTheme } from "./theme";

export interface Line {
  label: string;
  colour: string;
  dash?: number[];
  width?: number;
  fill?: string;
}

interface Props {
  title: string;
  unit: string;
  x: readonly number[];
  lines: readonly Line[];
  values: readonly (readonly (number | null)[])[];
  height?: number;
  format?: (value: number) => string;
  /** without a legend, if it is shown elsewhere */
  bare?: boolean;
  /** a limit, drawn as a dashed line */
  limit?: number | undefined;
  /** places on the time axis that get a vertical line, such as restarts */
  marks?: readonly number[];
}

const NONE: readonly number[] = [];
const plain = (v: number): string => (Math.abs(v) >= 1000 ? `${+(v / 1000).toFixed(1)}k` : `${+v.toFixed(2)}`);

function drawMarks(u: uPlot, marks: readonly number[]): void {
  u.ctx.save();
  u.ctx.strokeStyle = colour("dim");
  u.ctx.setLineDash([2, 3]);
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark, "x", true));
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
  }
  u.ctx.restore();
}

export function Chart({ title, unit, x, lines, values, height = 128, format = plain, limit, bare, marks = NONE }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const theme = useTheme();
  const form = JSON.stringify([lines, height, unit, limit, marks, theme]);
  useEffect(() => {
    const place = box.current;
    if (!place) return;
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px 'Overpass Mono Variable', monospace" };
    const made = new uPlot(
      {
        width: place.clientWidth,
        height,
        // room for the last label of the time axis
        padding: [8, 22, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 5 } },
        scales: { x: { time: false }, y: { range: (_u, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, limit ?? 0, 1e-3) * 1.1] } },
        axes: [
          { ...axis, size: 22, gap: 2, space: 60, align: 1, incrs: [10, 30, 60, 120, 300, 600, 1200, 1800, 3600], values: (_u, splits) => splits.map(clock) },
          { ...axis, size: 44, gap: 4, space: 26, values: (_u, splits) => splits.map(format) },
        ],
        series: [{}, ...lines.map((line) => ({ label: line.label, stroke: line.colour, width: line.width ?? 1.5, points: { show: false }, spanGaps: true, ...(line.dash ? { dash: line.dash } : {}), ...(line.fill ? { fill: line.fill } : {}) }))],
        hooks: {
          drawAxes: [
            (u) => {
              drawMarks(u, marks);
              if (limit === undefined) return;
              const y = Math.round(u.valToPos(limit, "y", true));
              u.ctx.save();
              u.ctx.strokeStyle = colour("alarm");
              u.ctx.setLineDash([6, 4]);
              u.ctx.beginPath();
              u.ctx.moveTo(u.bbox.left, y);
              u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
              u.ctx.stroke();
              u.ctx.restore();
            },
          ],
        },
      },
      [[], ...lines.map(() => [])],
      place,
    );
    plot.current = made;
    const fit = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height }));
    fit.observe(place);
    return () => {
      fit.disconnect();
      made.destroy();
      plot.current = undefined;
    };
    // `form` contains everything that the plot's configuration depends on
  }, [form]);
  useEffect(() => {
    plot.current?.setData([x as number[], ...(values as (number | null)[][])]);
  }, [x, values, form]);
  return (
    <figure className="chart">
      <figcaption>
        <h3>{title}</h3>
        <span className="legend">
          {!bare && lines.map((line) => (
            <span key={line.label}>
              <i style={{ background: line.colour }} />
              {line.label}
            </span>
          ))}
          {limit !== undefined && (
            <span>
              <i className="dashed" />
              limit
            </span>
          )}
          {marks.length > 0 && (
            <span>
              <i className="dotted" />
              start
            </span>
          )}
        </span>
        <span className="unit">{unit}</span>
      </figcaption>
      <div ref={box} />
      {x.length === 0 && <p className="nothing">No data yet</p>}
    </figure>
  );
}
