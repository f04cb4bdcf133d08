// The colour scale, suitable for colour-blind readers: viridis, from its published control colours.
export type Scale = Uint8Array; // 256 colours, three bytes each

function ramp(stops: readonly string[]): Scale {
  const rgb = stops.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const out = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const x = (i / 255) * (rgb.length - 1);
    const k = Math.min(Math.floor(x), rgb.length - 2);
    for (let c = 0; c < 3; c++) {
      const [a, b] = [rgb[k]?.[c] ?? 0, rgb[k + 1]?.[c] ?? 0];
      out[i * 3 + c] = Math.round(a + (b - a) * (x - k));
    }
  }
  return out;
}

export const VIRIDIS = ramp([
  "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725",
]);
export const css = (scale: Scale, at: number): string => {
  const i = Math.max(0, Math.min(255, Math.round(at * 255))) * 3;
  return `rgb(${scale[i]} ${scale[i + 1]} ${scale[i + 2]})`;
};

export const gradient = (scale: Scale, shade: (share: number) => number): string => {
  const stops = Array.from({ length: 11 }, (_, i) => css(scale, shade(i / 10)));
  return `linear-gradient(to right, ${stops.join(", ")})`;
};

/** Colours of series, by Okabe and Ito. */
export const SERIES = ["#e69f00", "#d55e00", "#56b4e9", "#009e73", "#cc79a7"] as const;
