import { expect, it } from "vitest";
import { merged } from "../src/city/live";
import { bytes, clock, count, duration } from "../src/shared/format";

it("writes seconds of a run as a clock", () => expect([0, 61, 3661.9, -5].map(clock)).toEqual(["0:00:00", "0:01:01", "1:01:01", "0:00:00"]));
it("writes durations with two or three digits", () => {
  expect([0.000042, 0.0042, 0.42, 4.2, 42, null].map(duration)).toEqual(["42 µs", "4.20 ms", "420 ms", "4.20 s", "42.0 s", "–"]);
});
it("writes sizes and counts", () => {
  expect([999, 1500, 2.5e6].map(bytes)).toEqual(["999 B", "1.5 kB", "2.5 MB"]);
  expect(count(1234567.8)).toBe("1,234,568");
});
it("newer versions of a batch replace older ones", () => {
  const beat = (batch: number, commit: number | null) => ({ batch, commit }) as never;
  expect(merged([beat(1, 1), beat(2, null)], [beat(2, 5), beat(3, null)])).toEqual([beat(1, 1), beat(2, 5), beat(3, null)]);
});
