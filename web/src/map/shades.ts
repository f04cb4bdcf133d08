// What colour a position has: by the value of an attribute, on a scale or from a list.
import { VIRIDIS } from "../shared/scales";
import { parseColour, word } from "./paint";
import type { Attribute } from "./tracks";

/** Colours of texts, by Okabe and Ito, and by Tol: distinct first, then again. */
export const TEXT_COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#f0e442", "#999999", "#882255", "#44aa99", "#ddcc77", "#332288"] as const;

/** What the colours of a legend mean. */
export interface Shades {
  /** of each position, the number of its colour; undefined: all the same */
  codes: Uint8Array | undefined;
  words: Uint32Array;
  low: number;
  high: number;
}

export const plain = (hex: string): Shades => ({ codes: undefined, words: Uint32Array.of(parseColour(hex)), low: 0, high: 0 });

/** The numbers between which most values lie: without the two percent at either end. */
export function range(values: ArrayLike<number>): [number, number] {
  const step = Math.max(1, Math.floor(values.length / 20000));
  const sample: number[] = [];
  for (let i = 0; i < values.length; i += step) {
    const value = values[i] ?? NaN;
    if (Number.isFinite(value)) sample.push(value);
  }
  sample.sort((a, b) => a - b);
  const at = (share: number) => sample[Math.round(share * (sample.length - 1))] ?? 0;
  const [low, high] = [at(0.02), at(0.98)];
  return low < high ? [low, high] : [at(0), Math.max(at(1), at(0))];
}

/** The last colour is that of positions without a value. */
const NONE = 255;

export function shade(attribute: Attribute, none: string): Shades {
  const words = new Uint32Array(256);
  words[NONE] = parseColour(none);
  if (attribute.texts.length) {
    attribute.texts.forEach((_, k) => (words[k] = parseColour(TEXT_COLOURS[k % TEXT_COLOURS.length] ?? none)));
    return { codes: Uint8Array.from(attribute.values, (code) => (Number.isNaN(code) ? NONE : code)), words, low: 0, high: 0 };
  }
  const [low, high] = range(attribute.values);
  for (let i = 0; i < NONE; i++) words[i] = scaled(i / (NONE - 1));
  const span = high - low || 1;
  const codes = Uint8Array.from(attribute.values, (value) => (Number.isNaN(value) ? NONE : Math.max(0, Math.min(NONE - 1, Math.round(((value - low) / span) * (NONE - 1))))));
  return { codes, words, low, high };
}

/** A share of the scale as a pixel. */
export function scaled(share: number, alpha = 255): number {
  const i = 3 * Math.max(0, Math.min(255, Math.round(share * 255)));
  return word(VIRIDIS[i] ?? 0, VIRIDIS[i + 1] ?? 0, VIRIDIS[i + 2] ?? 0, alpha);
}
