// uPlot in React: recreated when its configuration changes, updated with data, as wide as its container.
// Charts of a page share the crosshair and the range: drag to zoom in, double-click to see everything again.
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "./format";
import { saveFile } from "./saving";
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
  /** whether the horizontal axis has numbers, not times */
  number?: boolean;
  /** the part of the time axis that is shown, and what to do when another one is chosen */
  range?: [number, number] | undefined;
  onRange?: (range: [number, number] | undefined) => void;
}

const TIMES = [1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400];
const NONE: readonly number[] = [];
/** The width of a letter of a label, in pixels. */
const LETTER = 6.8;
const plain = (v: number): string => (Math.abs(v) >= 1000 ? `${+(v / 1000).toFixed(1)}k` : `${+v.toFixed(2)}`);

/** The labels of an axis, which begin at their ticks; one that would not fit is left out. */
function fitLabels(u: uPlot, splits: readonly number[], format: (value: number) => string): string[] {
  const end = u.width - 2;
  return splits.map((value) => {
    const label = format(value);
    return u.bbox.left / devicePixelRatio + u.valToPos(value, "x") + LETTER * label.length > end ? "" : label;
  });
}

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

function drawLimit(u: uPlot, limit: number): void {
  const y = Math.round(u.valToPos(limit, "y", true));
  u.ctx.save();
  u.ctx.strokeStyle = colour("alarm");
  u.ctx.setLineDash([6, 4]);
  u.ctx.beginPath();
  u.ctx.moveTo(u.bbox.left, y);
  u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
  u.ctx.stroke();
  u.ctx.restore();
}

/** The data of a chart as CSV. */
export function toCsv(x: readonly number[], lines: readonly Line[], values: Props["values"]): string {
  const quote = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = ["x", ...lines.map((line) => quote(line.label))].join(",");
  return [head, ...x.map((at, i) => [at, ...values.map((column) => column[i] ?? "")].join(","))].join("\n") + "\n";
}

export function Chart({ title, unit, x, lines, values, height = 128, format = plain, limit, bare, marks = NONE, number = false, range, onRange }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const theme = useTheme();
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const report = useRef(onRange);
  report.current = onRange;
  const shown = useRef(range);
  shown.current = range;
  const form = JSON.stringify([lines, height, unit, limit, marks, number, theme, [...hidden]]);
  // the plot gets the part that is shown, so that its y axis fits it
  const part = useMemo(() => {
    if (!range) return { x, values };
    const inside = x.map((at, i) => (at >= range[0] && at <= range[1] ? i : -1)).filter((i) => i >= 0);
    return { x: inside.map((i) => x[i] ?? 0), values: values.map((column) => inside.map((i) => column[i] ?? null)) };
  }, [x, values, range]);
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
        cursor: { y: false, points: { size: 5 }, sync: { key: "time", setSeries: false }, drag: { x: report.current !== undefined, y: false, setScale: false } },
        scales: { x: { time: false }, y: { range: (_u, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, limit ?? 0, 1e-3) * 1.1] } },
        axes: [
          { ...axis, size: 22, gap: 2, space: 60, align: 1, ...(number ? {} : { incrs: TIMES }), values: (u: uPlot, splits: number[]) => fitLabels(u, splits, number ? plain : clock) },
          { ...axis, size: 44, gap: 4, space: 26, values: (_u, splits) => splits.map(format) },
        ],
        series: [{}, ...lines.map((line) => ({ label: line.label, show: !hidden.has(line.label), stroke: line.colour, width: line.width ?? 1.5, points: { show: false }, spanGaps: true, ...(line.dash ? { dash: line.dash } : {}), ...(line.fill ? { fill: line.fill } : {}) }))],
        hooks: {
          drawAxes: [
            (u) => {
              drawMarks(u, marks);
              if (limit !== undefined) drawLimit(u, limit);
            },
          ],
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              report.current?.([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]);
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
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
    plot.current?.setData([part.x as number[], ...(part.values as (number | null)[][])]);
  }, [part, form]);
  const toggle = (label: string) => setHidden((before) => new Set(before.has(label) ? [...before].filter((one) => one !== label) : [...before, label]));
  return (
    <figure className="chart" aria-label={title}>
      <figcaption>
        <h3>
          {title}
          {unit && <small className="dim"> {unit}</small>}
        </h3>
        <span className="legend">
          {!bare && lines.map((line) => (
            <button key={line.label} type="button" className="plain" aria-pressed={!hidden.has(line.label)} title={hidden.has(line.label) ? "Show" : "Hide"} onClick={() => toggle(line.label)}>
              <i style={{ background: line.colour }} />
              {line.label}
            </button>
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
        <span className="grow" />
        {range && onRange && (
          <button type="button" className="plain" onClick={() => onRange(undefined)} title="Show the whole time">
            all
          </button>
        )}
        <button type="button" className="plain" onClick={() => saveFile(`${title}.csv`, toCsv(part.x, lines, part.values), "text/csv")} aria-label={`Download ${title} as CSV`} title="Download as CSV">
          ↓
        </button>
      </figcaption>
      <div ref={box} onDoubleClick={() => onRange?.(undefined)} />
      {x.length === 0 && <p className="nothing">No data yet</p>}
    </figure>
  );
}
