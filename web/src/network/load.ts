// What boxes cost and remember: where the time goes, and which of them holds the others up.
import type { BoxWeight } from "./server";

/** A box stands out only if a third of the time goes into it. */
const LEAST = 1 / 3;
/** It is called the bottleneck only if it works much of the time: nothing waits for a box that is idle. */
const BUSY = 0.25;

/** The box that most of the time goes into. */
export function busiestOf(boxes: Readonly<Record<string, BoxWeight>>): string | undefined {
  const found = Object.entries(boxes).sort(([, a], [, b]) => b.share - a.share);
  return found.length > 1 && found[0] && found[0][1].share >= LEAST ? found[0][0] : undefined;
}

/** The busiest box, if it holds the others up. */
export function bottleneckOf(boxes: Readonly<Record<string, BoxWeight>>): string | undefined {
  const busiest = busiestOf(boxes);
  return busiest !== undefined && (boxes[busiest]?.busy ?? 0) >= BUSY ? busiest : undefined;
}

export type Standing = "" | "busiest" | "bottleneck";

/** How a box, or a group of boxes, stands out. */
export function standingOf(boxes: Readonly<Record<string, BoxWeight>> | undefined, names: readonly string[]): Standing {
  if (!boxes) return "";
  if (names.includes(bottleneckOf(boxes) ?? "")) return "bottleneck";
  return names.includes(busiestOf(boxes) ?? "") ? "busiest" : "";
}

/** The loads of some boxes, as one. */
export function sumLoads(loads: readonly BoxWeight[]): BoxWeight | undefined {
  if (!loads.length) return undefined;
  const sum = (of: (one: BoxWeight) => number) => loads.reduce((total, one) => total + of(one), 0);
  return { share: sum((one) => one.share), busy: loads.some((one) => one.busy === null) ? null : sum((one) => one.busy ?? 0), rows: sum((one) => one.rows), bytes: sum((one) => one.bytes) };
}

/** A share as a percentage; small ones are not rounded to nothing. */
export const percent = (share: number | null | undefined): string =>
  share === null || share === undefined ? "–" : share > 0 && share < 0.01 ? "<1 %" : `${Math.round(share * 100)} %`;
