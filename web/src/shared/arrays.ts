// Arrays of four bytes per element as the server packs them: their number, their lengths, then each, aligned to eight bytes.
export interface Part {
  at: number;
  length: number;
}

export function unpack(buffer: ArrayBuffer): Part[] {
  const head = new Uint32Array(buffer, 0, 1);
  const lengths = new Uint32Array(buffer, 4, head[0] ?? 0);
  let place = align(4 + 4 * lengths.length);
  return [...lengths].map((length) => {
    const part = { at: place, length };
    place = align(place + 4 * length);
    return part;
  });
}

const align = (place: number): number => Math.ceil(place / 8) * 8;
export const ints = (buffer: ArrayBuffer, part: Part | undefined) => new Int32Array(buffer, part?.at ?? 0, part?.length ?? 0);
export const floats = (buffer: ArrayBuffer, part: Part | undefined) => new Float32Array(buffer, part?.at ?? 0, part?.length ?? 0);

/** The header that is packed before the arrays of a map, as JSON. */
export function header<T>(buffer: ArrayBuffer, part: Part | undefined): T {
  const bytes = new Uint8Array(buffer, part?.at ?? 0, 4 * (part?.length ?? 0));
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}
