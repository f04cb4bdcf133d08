// Format numbers and times for display.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (n: number): string => whole.format(n);

/** Second of a run as h:mm:ss. */
export function clock(second: number): string {
  const s = Math.max(0, Math.floor(second));
  const two = (n: number) => String(n).padStart(2, "0");
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** A duration with two or three significant digits. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size < 0.0000995) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (size < 0.995) return `${(seconds * 1000).toFixed(size < 0.00995 ? 2 : 0)} ms`;
  return `${seconds.toFixed(size < 9.95 ? 2 : 1)} s`;
}

/** A size in bytes, with a suitable unit. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = n < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(n) / 3));
  return `${(n / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** Unix time with the day of the week, in UTC. */
export function utc(seconds: number): string {
  const at = new Date(seconds * 1000);
  return `${DAYS[at.getUTCDay()]} ${at.toISOString().slice(0, 19).replace("T", " ")}`;
}

/** Unix time as local time; without the date if it is today. */
export function instant(seconds: number): string {
  const at = new Date(seconds * 1000);
  const today = at.toDateString() === new Date().toDateString();
  return today ? at.toLocaleTimeString("en-GB") : at.toLocaleString("en-GB");
}
