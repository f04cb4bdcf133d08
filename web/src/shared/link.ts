// What a page shows, as text for its address: short, readable, and unable to break the page when it is wrong.
import { useCallback, useMemo } from "react";
import { useParam } from "./router";

/** Numbers separated by commas; undefined unless there are exactly `many` finite ones (any number if 0). */
export function numbers(text: string | undefined, many = 0): number[] | undefined {
  if (text === undefined || text === "") return undefined;
  const found = text.split(",").map((one) => (one.trim() === "" ? NaN : Number(one)));
  return found.every(Number.isFinite) && (many === 0 || found.length === many) ? found : undefined;
}

/** A number with as many digits as matter. */
export const short = (value: number, digits = 6): string => String(Number(value.toPrecision(digits)));

/** Points as `x,y;x,y`, to the decimetre. */
export const formatPoints = (points: readonly (readonly [number, number])[]): string => points.map(([x, y]) => `${Math.round(x * 10) / 10},${Math.round(y * 10) / 10}`).join(";");

export function parsePoints(text: string | undefined): [number, number][] {
  const found = (text ?? "").split(";").map((one) => numbers(one, 2));
  return found.every((one) => one !== undefined) ? (found as [number, number][]) : [];
}

/** A whole number in the address as state. */
export function useNumberParam(name: string): [number | undefined, (value: number | undefined) => void] {
  const [text, set] = useParam(name);
  const value = numbers(text, 1)?.[0];
  return [value, useCallback((next: number | undefined) => set(next === undefined ? undefined : String(next)), [set])];
}

/** A range on an axis in the address as state: `from,to`. */
export function useRangeParam(name: string): [[number, number] | undefined, (range: [number, number] | undefined) => void] {
  const [text, set] = useParam(name);
  const range = useMemo(() => {
    const [from, to] = numbers(text, 2) ?? [];
    return from !== undefined && to !== undefined && from < to ? ([from, to] as [number, number]) : undefined;
  }, [text]);
  return [range, useCallback((next) => set(next && next.map((one) => short(one)).join(",")), [set])];
}
