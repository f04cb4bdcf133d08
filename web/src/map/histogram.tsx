// How many positions there are at each time, over the slider.
export function Histogram({ counts }: { counts: Uint32Array }) {
  const most = Math.max(1, ...counts);
  const bars = [...counts].map((one, k) => (one ? `M${k} 20V${20 - Math.max(1, (19 * one) / most)}h0.9V20z` : "")).join("");
  return (
    <svg className="histogram" viewBox={`0 0 ${counts.length} 20`} preserveAspectRatio="none" aria-hidden="true">
      <path d={bars} />
    </svg>
  );
}
