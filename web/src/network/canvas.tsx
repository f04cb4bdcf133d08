// The canvas: boxes and arcs of the network; a group is one box until you zoom in.
import "@xyflow/react/dist/base.css";
import {
  applyNodeChanges,
  Background,
  BackgroundVariant,
  BaseEdge,
  type Connection,
  Controls,
  type Edge,
  EdgeLabelRenderer,
  type EdgeProps,
  getBezierPath,
  getSmoothStepPath,
  Handle,
  MiniMap,
  type Node,
  type NodeChange,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  useReactFlow,
} from "@xyflow/react";
import { memo, type RefObject, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { bytes, count, duration } from "../shared/format";
import { layersIn, layout, type Positions, type Spot, WIDTH } from "./layout";
import type { Inputs } from "./input";
import { percent, type Standing, standingOf, sumLoads } from "./load";
import { colour } from "../shared/theme";
import * as m from "./model";
import type { BoxWeight, Complaint, Drop, Flow, RunState, Stage, Verdict } from "./server";
import { framesOf, stageOf, stageOfSpot, type StageOf } from "./stages";

export const DRAGGED = "application/slipstream-piece";

interface DrawnLine {
  text: string;
  /** the output that leaves here */
  port?: string;
  dim?: boolean;
}
interface Look extends Record<string, unknown> {
  title: string;
  kind: string;
  lines: DrawnLine[];
  inputs: string[];
  names?: string[];
  complaints: Complaint[];
  understood: boolean;
  badge?: string;
  note?: string;
  load?: BoxWeight | undefined;
  standing?: Standing;
}
type Drawn = Node<Look>;
type Wire = Edge<{ flow?: Flow; drop?: Drop; queue?: number; busy: boolean; arc: string; side: number; target: string }>;

interface Props {
  doc: m.Doc;
  shapes: readonly m.Shape[];
  verdict: Verdict | undefined;
  showStages: boolean;
  run: RunState | undefined;
  group: string | undefined;
  selected: string | undefined;
  positions: Positions;
  /** what sources read */
  inputs: Inputs;
  /** whether nothing can be changed, as on a phone */
  readOnly: boolean;
  /** changes when a network is opened, which is then shown as a whole */
  opened: number;
  onSelect: (id: string | undefined) => void;
  onEnter: (group: string | undefined) => void;
  onEdit: (edit: (doc: m.Doc) => m.Doc) => void;
  onPlace: (moved: Positions) => void;
  onDrop: (piece: m.Piece, at: { x: number; y: number }) => void;
}

/** The smallest legible zoom: below it a network is not shown as a whole. */
const LEGIBLE = 0.85;
/** Nobody can zoom out further than text can be read; the minimap shows the rest. */
const SMALLEST = 0.75;
/** around the network */
const MARGIN = 16;
const BELOW_TOOLS = 64;

/** The layers that fit beside each other at a legible size. */
function useLayers(canvas: RefObject<HTMLDivElement | null>): number {
  const [most, setMost] = useState(4);
  useEffect(() => {
    const place = canvas.current;
    if (!place) return;
    const watch = new ResizeObserver(() => setMost(layersIn((place.clientWidth - 3 * MARGIN) / LEGIBLE)));
    watch.observe(place);
    return () => watch.disconnect();
  }, [canvas]);
  return most;
}

/** Show the whole network; if that would be too small to read, its beginning. */
async function show(flow: ReactFlowInstance<Drawn, Wire>): Promise<void> {
  await flow.fitView({ padding: 0.08, maxZoom: 1.1 });
  const canvas = document.querySelector(".canvas");
  if (!canvas || flow.getZoom() >= LEGIBLE) return;
  const whole = flow.getNodesBounds(flow.getNodes());
  const below = Math.max(canvas.clientHeight - whole.height * LEGIBLE, 2 * BELOW_TOOLS) / 2;
  await flow.setViewport({ x: MARGIN - whole.x * LEGIBLE, y: below - whole.y * LEGIBLE, zoom: LEGIBLE });
}

export function Canvas(props: Props) {
  const { doc, shapes, verdict, run, group, selected, positions, inputs, readOnly, onSelect, onEnter, onEdit, onPlace } = props;
  const canvas = useRef<HTMLDivElement>(null);
  const most = useLayers(canvas);
  const flow = useReactFlow<Drawn, Wire>();
  const stages = useStages(verdict, props.opened, props.showStages);
  const inStage = useMemo(() => stageOf(doc, stages), [doc, stages]);
  const scene = useMemo(() => sceneOf(doc, group, shapes, inStage), [doc, group, shapes, inStage]);
  const laid = useMemo(() => layout(scene.spots, scene.arcs, most), [scene, most]);
  const placed = useMemo(() => ({ ...laid.places, ...positions }), [laid, positions]);
  const [nodes, setNodes] = useState<Drawn[]>([]);
  useEffect(() => {
    setNodes((before) => {
      const sizes = new Map(before.map((node) => [node.id, node.measured]));
      return scene.spots.map((spot) => ({
        id: spot.id,
        type: "piece",
        position: placed[spot.id] ?? { x: 0, y: 0 },
        selected: spot.id === selected,
        deletable: !isOutside(spot.id),
        data: lookOf(doc, spot.id, shapes, inStage, verdict, run, inputs),
        ...(sizes.get(spot.id) ? { measured: sizes.get(spot.id) ?? {} } : {}),
      }));
    });
  }, [scene, placed, selected, shapes, inStage, verdict, run, doc, inputs]);
  const frames = useMemo(() => (verdict?.stages.length ? framesOf(doc, stages, inStage, nodes, laid.lines, WIDTH) : []), [doc, stages, inStage, nodes, laid, verdict]);
  const edges = useMemo(() => wiresOf(doc, scene, run, selected), [doc, scene, run, selected]);
  useEffect(() => {
    const soon = window.setTimeout(() => void show(flow), 60);
    return () => window.clearTimeout(soon);
    // the drawer of a run covers part of the canvas, and stages move boxes
  }, [group, props.opened, run !== undefined, stages.length, most, flow]);

  const onNodesChange = useCallback(
    (changes: NodeChange<Drawn>[]) => {
      setNodes((before) => applyNodeChanges(changes, before));
      const moved = changes.filter((one) => one.type === "position" && one.position && one.dragging === false);
      if (moved.length) onPlace(Object.fromEntries(moved.map((one) => [one.type === "position" ? one.id : "", (one.type === "position" && one.position) || { x: 0, y: 0 }])));
      for (const one of changes) if (one.type === "select" && one.selected) onSelect(one.id);
    },
    [onPlace, onSelect],
  );
  const isValid = (link: Connection | Wire) => {
    const origin = m.split(link.source)[1];
    if (isOutside(link.source) || isOutside(link.target) || m.loops(doc, origin, link.target)) return false;
    const box = doc.boxes[m.split(link.target)[1]];
    return !link.source.startsWith("tables.") || (link.target.startsWith("boxes.") && box?.join !== undefined);
  };
  return (
    <div
      ref={canvas}
      className="canvas"
      onDragOver={(event) => {
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
      }}
      onDrop={(event) => {
        event.preventDefault();
        const piece = event.dataTransfer.getData(DRAGGED) as m.Piece;
        if (piece && !readOnly) props.onDrop(piece, flow.screenToFlowPosition({ x: event.clientX - WIDTH / 2, y: event.clientY - 24 }));
      }}
    >
      <ReactFlow
        nodes={[...frames.map(framed), ...nodes]}
        edges={edges}
        nodeTypes={NODES}
        edgeTypes={EDGES}
        onNodesChange={onNodesChange}
        onEdgesChange={(changes) => {
          for (const one of changes) if (one.type === "select" && one.selected) onSelect(one.id);
        }}
        onConnect={(link) =>
          onEdit((now) => m.connect(now, m.arcOf(m.split(link.source)[1], portAt(link.sourceHandle)), link.target, sideAt(link.targetHandle)))
        }
        isValidConnection={isValid}
        onDelete={(gone) => {
          onEdit((now) => {
            const without = gone.edges.reduce((doc_, edge) => {
              const wire = edge;
              return wire.data ? m.disconnect(doc_, wire.data.target, wire.data.side) : doc_;
            }, now);
            return gone.nodes.reduce((doc_, node) => m.remove(doc_, node.id), without);
          });
          onSelect(undefined);
        }}
        onPaneClick={() => onSelect(undefined)}
        onNodeDoubleClick={(_, node) => node.id.startsWith("group.") && onEnter(node.id.slice(6))}
        deleteKeyCode={readOnly ? null : ["Delete", "Backspace"]}
        nodesDraggable={!readOnly}
        nodesConnectable={!readOnly}
        connectionRadius={28}
        minZoom={SMALLEST}
        maxZoom={2}
        proOptions={{ hideAttribution: true }}
        ariaLabelConfig={{ "node.a11yDescription.default": readOnly ? "Enter selects a box." : "Enter selects a box, arrow keys move it, Delete removes it." }}
      >
        <Background variant={BackgroundVariant.Dots} gap={24} size={1.2} />
        <Controls showInteractive={false} position="bottom-right" orientation="horizontal" />
        <MiniMap className="minimap" style={{ width: 160, height: 100 }} nodeColor={(node) => (node.type === "stage" ? "transparent" : colour("dim"))} pannable zoomable ariaLabel="The network as a whole" />
      </ReactFlow>
    </div>
  );
}

const isOutside = (id: string): boolean => id.startsWith("group.") || id.startsWith("outside.");
/** The ids of dots: o and the output, i and the side. */
const dotOf = (port: string): string => `o${port || "0"}`;
const portAt = (dot: string | null | undefined): string => (dot && dot !== "o0" ? dot.slice(1) : "");
const sideAt = (dot: string | null | undefined): number => Number(dot?.slice(1) ?? 0);

/** The stages of the last valid network, so that boxes keep their places while one is edited. */
function useStages(verdict: Verdict | undefined, opened: number, show_: boolean): readonly Stage[] {
  const [known, setKnown] = useState<{ opened: number; stages: readonly Stage[] }>({ opened, stages: [] });
  useEffect(() => {
    const found = verdict?.stages ?? [];
    setKnown((before) => {
      const stages = found.length || before.opened !== opened ? found : before.stages;
      return before.opened === opened && JSON.stringify(before.stages) === JSON.stringify(stages) ? before : { opened, stages };
    });
  }, [verdict, opened]);
  return show_ ? known.stages : NO_STAGES;
}
const NO_STAGES: readonly Stage[] = [];

const framed = ({ stage, line, x, y, width, height }: ReturnType<typeof framesOf>[number]): Drawn =>
  ({
    id: `stage.${stage.stage}.${line}`,
    type: "stage",
    position: { x, y },
    width,
    height,
    zIndex: -1,
    selectable: false,
    draggable: false,
    connectable: false,
    deletable: false,
    focusable: false,
    style: { pointerEvents: "none" },
    data: { title: stage.summary.replace(/^s/, "S") },
  }) as unknown as Drawn;

interface Scene {
  spots: Spot[];
  arcs: [string, string][];
  wires: { arc: string; target: string; side: number; from: string; to: string }[];
}

/** What to draw: everything with groups closed, or one group with its neighbours. */
function sceneOf(doc: m.Doc, group: string | undefined, shapes: readonly m.Shape[], inStage: StageOf): Scene {
  const groupOf = (id: string) => (id.startsWith("boxes.") ? doc.boxes[m.split(id)[1]]?.group : undefined);
  const shown = (id: string): string => {
    const of = groupOf(id);
    if (group === undefined) return of ? `group.${of}` : id;
    return of === group ? id : `outside.${id}`;
  };
  const wires: Scene["wires"] = [];
  for (const taker of m.takersOf(doc)) {
    m.inputsOf(doc, taker).forEach((arc, side) => {
      const origin = arc && m.placeOf(doc, m.originOf(arc));
      if (!origin) return;
      const [from, to] = [shown(origin), shown(taker)];
      if (from === to || (isOutside(from) && isOutside(to) && group !== undefined)) return;
      wires.push({ arc, target: taker, side, from, to });
    });
  }
  const used = new Set(wires.flatMap((wire) => [wire.from, wire.to]));
  const ids = [...new Set(m.placesOf(doc).map(shown))].filter((id) => !id.startsWith("outside.") || used.has(id));
  const spots = ids.map((id) => {
    const stage = stageOfSpot(doc, id, inStage);
    return { id, height: heightOf(doc, id, shapes), ...(stage === undefined ? {} : { stage }) };
  });
  return { spots, wires, arcs: wires.map((wire) => [wire.from, wire.to]) };
}

function heightOf(doc: m.Doc, id: string, shapes: readonly m.Shape[]): number {
  const [part, name] = m.split(id);
  return 46 + 22 * (part === "boxes" ? linesOf(doc, name, shapes).length : part === "sources" ? 2 : 1);
}

/** The contents of a box: what it does, and its outputs if it has several. */
function linesOf(doc: m.Doc, name: string, shapes: readonly m.Shape[]): DrawnLine[] {
  const box = doc.boxes[name] ?? { from: [] };
  const ports = m.portsOf(doc, name, shapes);
  const outputs = ports.map(({ port, title }, i) => ({ text: title, port, dim: !box.filter || i === ports.length - 1 }));
  if (box.filter) return outputs;
  return ports.length > 1 ? [{ text: m.summary(box) }, ...outputs] : [{ text: m.summary(box), port: "" }];
}

function lookOf(doc: m.Doc, id: string, shapes: readonly m.Shape[], inStage: StageOf, verdict: Verdict | undefined, run: RunState | undefined, from: Inputs): Look {
  const [part, name] = m.split(id);
  const plain = { complaints: [] as Complaint[], understood: true, inputs: ["i0"] };
  if (id.startsWith("group.")) {
    const inside = Object.keys(doc.boxes).filter((one) => doc.boxes[one]?.group === id.slice(6));
    const complaints = verdict?.complaints.filter((one) => inside.includes(m.split(one.place)[1]) && one.place.startsWith("boxes.")) ?? [];
    const stages = inside.flatMap((one) => inStage.get(`boxes.${one}`) ?? []);
    const [first, last] = [Math.min(...stages), Math.max(...stages)];
    const loads = inside.flatMap((one) => run?.boxes[one] ?? []);
    const load = { ...(loads.length ? { load: sumLoads(loads) } : {}), standing: standingOf(run?.boxes, inside) };
    return { ...plain, ...load, title: id.slice(6), kind: "group", complaints, ...(last > first ? { badge: `stages ${first} to ${last}` } : {}), lines: [{ text: `${inside.length} boxes, double-click to zoom in`, port: "", dim: true }] };
  }
  if (id.startsWith("outside.")) return { ...plain, title: m.split(id.slice(8))[1], kind: "outside", lines: [{ text: "outside this group", port: "", dim: true }] };
  const complaints = verdict?.complaints.filter((one) => one.place === id) ?? [];
  const understood = !verdict || complaints.length > 0 || part === "outputs" || part === "points" || name in verdict.schemas;
  const base = { ...plain, title: name, complaints, understood };
  if (part === "sources" || part === "tables") {
    const columns = Object.keys(doc[part]?.[name] ?? {}).join(", ") || "no columns yet";
    const queue = run?.queues[name];
    const read = from[id] ? [{ text: from[id], dim: true }] : [];
    return { ...base, kind: part === "sources" ? "source" : "table", inputs: [], lines: [{ text: columns, port: "" }, ...read], ...(queue ? { badge: `${count(queue)} waiting` } : {}) };
  }
  if (part === "outputs" || part === "points") {
    const flow = run?.outputs[name];
    const worth = flow?.utility === null || flow?.utility === undefined ? "" : `utility ${flow.utility.toFixed(2)}`;
    const archive = part === "outputs" ? doc.outputs[name]?.archive : undefined;
    const leaves = archive ? `trips of ${String(archive.id || "?")}, gap ${String(archive.gap ?? "?")} s` : doc.outputs[name]?.view ? "view" : "leaves the network";
    const text = part === "points" ? "keeps what passes" : worth || leaves;
    return { ...base, kind: part === "points" ? "point" : archive ? "archive" : "output", lines: [{ text, dim: !worth }], ...(flow ? { badge: `${count(flow.tuples)} out` } : {}) };
  }
  const box = doc.boxes[name] ?? { from: [] };
  const kind = m.kindOf(box);
  const inputs = Array.from({ length: m.sides(box) }, (_, i) => `i${i}`);
  const load = run?.boxes[name];
  return { ...base, kind, lines: linesOf(doc, name, shapes), inputs, names: m.sideNames(box), ...(box.note ? { note: box.note } : {}), ...(load ? { load, standing: standingOf(run?.boxes, [name]) } : {}) };
}

function wiresOf(doc: m.Doc, scene: Scene, run: RunState | undefined, selected: string | undefined): Wire[] {
  const seen = new Set<string>();
  const busy = run?.status === "running";
  return scene.wires.flatMap(({ arc, target, side, from, to }) => {
    const union = target.startsWith("boxes.") && doc.boxes[m.split(target)[1]]?.union;
    const id = `arc:${arc}>${target}#${side}`;
    const key = isOutside(from) || isOutside(to) ? `${from}>${to}>${arc}` : id;
    if (seen.has(key)) return [];
    seen.add(key);
    const drop = run?.drops.find((one) => one.arc === arc && one.side === side && `${one.is_output ? "outputs" : "boxes"}.${one.taker}` === target);
    const queue = run?.queues[arc];
    const data = { arc, side, target, busy, ...(queue ? { queue } : {}), ...(run?.arcs[arc] ? { flow: run.arcs[arc] } : {}), ...(drop ? { drop } : {}) };
    return [
      {
        id,
        type: "wire",
        source: from,
        target: to,
        sourceHandle: isOutside(from) ? "o0" : dotOf(m.portOf(arc)),
        targetHandle: isOutside(to) || union ? "i0" : `i${side}`,
        selected: id === selected,
        data,
        ariaLabel: `Arc from ${arc} to ${m.split(target)[1]}`,
      },
    ];
  });
}

const GLYPHS: Record<string, string> = {
  filter: "M1 2h14l-5.5 6v6l-3-2V8z",
  map: "M2 4h3l6 8h3M11 9l3 3-3 3M2 12h3",
  union: "M1 3h4l4 5h6M1 13h4l4-5",
  bsort: "M2 3h12M2 7h9M2 11h6M2 15h3",
  aggregate: "M1 4h4v8H1zM6 2h4v10H6zM11 7h4v5h-4z",
  join: "M6 8m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0M10 8m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
  resample: "M2 14V9M6 14V4M10 14v-7M14 14V2M1 15h14",
  latest: "M1 4h8M1 12h8M12 4v8M9 9l3 3 3-3",
  running: "M1 14h3v-3h4V7h4V3h3",
  keep: "M8 1l6 3.5v7L8 15l-6-3.5v-7zM2 4.5L8 8l6-3.5M8 8v7",
  query: "M7 2a5 5 0 1 1-.01 0M10.6 10.6L15 15",
  lookup: "M1 3h7M1 7h4M1 11h4M10 6a3.4 3.4 0 1 1-.01 0M12.5 11.5L15 14",
  toll: "M2 15V6h5v9M7 8l8-4M4.5 9v2M1 15h14",
  operator: "M6 2L4 4v3L2 8l2 1v3l2 2M10 2l2 2v3l2 1-2 1v3l-2 2",
  archive: "M1 2h14v4H1zM2.5 6v8h11V6M6 9h4",
  source: "M1 8h9M7 4l4 4-4 4M14 2v12",
  topic: "M3 8m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M12 4m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M12 12m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M5 7l5-2M5 9l5 2",
  socket: "M5 1v4M11 1v4M3 5h10v3a5 5 0 0 1-10 0zM8 13v2",
  folder: "M1 4h5l2 2h7v8H1zM8 8v4M6 10l2 2 2-2",
  table: "M2 3h12v10H2zM2 7h12M7 3v10",
  output: "M2 2v12M5 8h9M11 4l4 4-4 4",
  point: "M8 2a6 6 0 1 1-.01 0M8 5v4h3",
  group: "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z",
  outside: "M2 8h12",
};

export function Glyph({ kind }: { kind: string }) {
  return (
    <svg className="glyph" viewBox="0 0 16 16" aria-hidden="true">
      <path d={GLYPHS[kind] ?? ""} />
    </svg>
  );
}

const Piece = memo(function Piece({ data, selected }: NodeProps<Drawn>) {
  const wrong = data.complaints[0];
  const state = `${wrong ? "wrong" : ""} ${data.understood ? "" : "waits"} ${selected ? "chosen" : ""} ${data.standing ?? ""}`;
  return (
    <div className={`piece ${data.kind} ${state}`} title={data.note}>
      {data.inputs.map((id, i) => (
        <Handle role="img" key={id} id={id} type="target" position={Position.Left} style={{ top: data.inputs.length === 1 ? 23 : 16 + i * 22 }} aria-label={(data.names?.[i] ?? "input").toLowerCase()} title={data.names?.[i]} />
      ))}
      <header>
        <Glyph kind={data.kind} />
        <strong>{data.title}</strong>
        <span className="kind">{data.badge ?? data.kind}</span>
      </header>
      {data.lines.map((line, i) => (
        <p key={i} className={line.dim ? "dim" : ""}>
          <span>{line.text}</span>
          {line.port !== undefined && <Handle role="img" id={dotOf(line.port)} type="source" position={Position.Right} aria-label={`output ${line.port || 0}`} />}
        </p>
      ))}
      {data.load && (
        <p className="load" title="Its share of the time of all boxes, and what it remembers">
          <i style={{ width: `${Math.round(data.load.share * 100)}%` }} />
          <span>
            {data.standing ? `${data.standing}, ` : ""}
            {percent(data.load.share)} of time{data.load.rows > 0 ? `, ${bytes(data.load.bytes)}` : ""}
          </span>
        </p>
      )}
      {wrong && (
        <p className="complaint" role="note">
          {wrong.message}
        </p>
      )}
    </div>
  );
});

const ArcLine = memo(function ArcLine(props: EdgeProps<Wire>) {
  // an arc to the next line goes around what is between
  const [path, x, y] = props.targetX < props.sourceX ? getSmoothStepPath({ ...props, borderRadius: 10, offset: 14 }) : getBezierPath(props);
  const { flow, drop, queue, busy } = props.data ?? {};
  const shedding = drop && (drop.share > 0 || drop.dropped > 0);
  return (
    <>
      <BaseEdge id={props.id} path={path} interactionWidth={18} className={`${props.selected ? "chosen" : ""} ${busy && flow?.rate ? "flows" : ""} ${shedding ? "sheds" : ""}`} />
      {(flow || queue || shedding) && (
        <EdgeLabelRenderer>
          <div className="rate mono" style={{ transform: `translate(-50%, -50%) translate(${x}px, ${y}px)` }}>
            {flow && <span title="tuples so far">{count(flow.tuples)}</span>}
            {flow && busy && flow.rate > 0 && <span title="tuples per second">{flow.rate < 10 ? flow.rate.toFixed(1) : count(flow.rate)}/s</span>}
            {flow?.delay !== null && flow?.delay !== undefined && <span title="mean delay in the last batch">{duration(flow.delay)}</span>}
            {queue && <span title="waiting to enter the network">{count(queue)} queued</span>}
            {shedding && (
              <span className="shed" title="dropped here">
                ⤓ {drop.share > 0 ? `${Math.round(drop.share * 100)} %, ` : ""}
                {count(drop.dropped)}
              </span>
            )}
          </div>
        </EdgeLabelRenderer>
      )}
    </>
  );
});

const StageFrame = memo(function StageFrame({ data }: NodeProps<Drawn>) {
  return <section className="stage" aria-label={data.title}>{data.title}</section>;
});

const NODES = { piece: Piece, stage: StageFrame };
const EDGES = { wire: ArcLine };
