// Stages on the canvas: which boxes belong to which, and the frames around them.
import * as m from "./model";
import type { Stage, Verdict } from "./server";

export type StageOf = ReadonlyMap<string, number>;

/** The stage of every box, and of the outputs that its tasks write. */
export function stageOf(doc: m.Doc, stages: readonly Stage[]): StageOf {
  const of = new Map<string, number>();
  for (const { stage, boxes } of stages) {
    for (const name of boxes) {
      // an archive output represents a box of its own
      const output = name.replace(/^archive_/, "");
      of.set(doc.boxes[name] || !doc.outputs[output]?.archive ? `boxes.${name}` : `outputs.${output}`, stage);
    }
  }
  for (const [name, output] of Object.entries(doc.outputs)) {
    const stage = of.get(`boxes.${m.originOf(output.from)}`);
    if (stage !== undefined && !of.has(`outputs.${name}`)) of.set(`outputs.${name}`, stage);
  }
  return of;
}

/** The stage of a drawn object; of a group, if all its boxes are in one. */
export function stageOfSpot(doc: m.Doc, id: string, of: StageOf): number | undefined {
  if (!id.startsWith("group.")) return of.get(id);
  const inside = Object.entries(doc.boxes).filter(([, box]) => box.group === id.slice(6));
  const stages = new Set(inside.map(([name]) => of.get(`boxes.${name}`)));
  return stages.size === 1 ? [...stages][0] : undefined;
}

/** The description of a stage. */
export const describeStage = (verdict: Verdict | undefined, stage: number | undefined): string =>
  (verdict?.stages.find((one) => one.stage === stage)?.summary ?? "").replace(/^s/, "S");

export interface Framed {
  id: string;
  position: { x: number; y: number };
  measured?: { width?: number; height?: number };
}
export interface Frame {
  stage: Stage;
  /** the line of the layout; a stage that wraps has a frame in each of its lines */
  line: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

const [AROUND, LABEL] = [18, 30];

/** A frame around the drawn boxes of each stage, in each line of the layout. */
export function framesOf(doc: m.Doc, stages: readonly Stage[], of: StageOf, drawn: readonly Framed[], lines: Readonly<Record<string, number>>, width: number): Frame[] {
  return stages.flatMap((stage) => {
    const all = drawn.filter(({ id }) => stageOfSpot(doc, id, of) === stage.stage);
    return [...new Set(all.map(({ id }) => lines[id] ?? 0))].sort((a, b) => a - b).map((line) => {
      const inside = all.filter(({ id }) => (lines[id] ?? 0) === line);
      const left = Math.min(...inside.map(({ position }) => position.x)) - AROUND;
      const top = Math.min(...inside.map(({ position }) => position.y)) - LABEL;
      const right = Math.max(...inside.map(({ position, measured }) => position.x + (measured?.width ?? width))) + AROUND;
      const bottom = Math.max(...inside.map(({ position, measured }) => position.y + (measured?.height ?? 68))) + AROUND;
      return { stage, line, x: left, y: top, width: right - left, height: bottom - top };
    });
  });
}
