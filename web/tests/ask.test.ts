import { describe, expect, it } from "vitest";
import { charted, completions, drawn, example, numeric, type Result } from "../src/ask/model";
import { toCsv } from "../src/shared/chart";

const result = (columns: string[], rows: unknown[][], paths: number[][][] = []): Result => ({ columns, rows, paths, path_rows: [], is_cut: false, batch: 1, seconds: 0.1 });

describe("a chart of a result", () => {
  it("is over the first number if it is a key", () => {
    const made = charted(result(["name", "hour", "n"], [["b", 2, 20], ["a", 1, 10], ["c", 3, null]]));
    expect(made).toEqual({ x: [1, 2, 3], label: "hour", labels: ["n"], values: [[10, 20, null]] });
  });
  it("is over the rows otherwise", () => {
    expect(charted(result(["n"], [[5], [5]]))).toEqual({ x: [1, 2], label: "row", labels: ["n"], values: [[5, 5]] });
  });
  it("needs numbers, and more than one row", () => {
    expect(charted(result(["a"], [["x"], ["y"]]))).toBeUndefined();
    expect(charted(result(["a"], [[1]]))).toBeUndefined();
  });
});

it("a column with a text is no number", () => expect(numeric(result(["a", "b", "c"], [[1, "x", null], [null, 2, null]]))).toEqual([0]));

describe("a map of a result", () => {
  it("has the paths of moving points", () => {
    expect(drawn(result(["Trip"], [["2 points"]], [[[0, 0, 5, 5], [7, 7]]]))).toEqual({ lines: [[0, 0, 5, 5]], points: [[7, 7]], isDegrees: false });
  });
  it("has places of two columns", () => {
    expect(drawn(result(["Lat", "lon"], [[52.5, 13.4], [null, 13]]))).toEqual({ lines: [], points: [[13.4, 52.5]], isDegrees: true });
    expect(drawn(result(["x", "y"], [[1, 2]]))?.isDegrees).toBe(false);
  });
  it("is not there without places", () => expect(drawn(result(["lat", "n"], [[1, 2]]))).toBeUndefined());
});

it("completes the word before the cursor", () => {
  expect(completions("select vi", ["vid", "view", "Visits", "speed"])).toEqual(["vid", "view", "Visits"]);
  expect(completions("select vid", ["vid"])).toEqual([]);
  expect(completions("select ", ["vid"])).toEqual([]);
});

it("begins with a query that can be run", () => {
  expect(example({ name: "alerts", kind: "output", columns: ["a", "b", "c", "d", "e"] })).toBe("SELECT a, b, c, d\nFROM alerts\nLIMIT 100");
});

it("CSV quotes what needs it", () => {
  expect(toCsv([1, 2], [{ label: 'a "b", c', colour: "" }], [[3, null]])).toBe('x,"a ""b"", c"\n1,3\n2,\n');
});
