import { describe, expect, it } from "vitest";
import { formatPoints, numbers, parsePoints, short } from "../src/shared/link";
import { withParams } from "../src/shared/router";

describe("numbers", () => {
  it("reads as many as wanted", () => {
    expect(numbers("0,1,33", 3)).toEqual([0, 1, 33]);
    expect(numbers("-1.5e3", 1)).toEqual([-1500]);
    expect(numbers("1,2,3")).toEqual([1, 2, 3]);
  });
  it.each([undefined, "", "x", "1,", ",1", "1,2", "1;2;3", "Infinity,1,2", "1,2,NaN", " , , "])("refuses %s", (text) => {
    expect(numbers(text, 3)).toBeUndefined();
  });
});

describe("points", () => {
  it("survive a link to the decimetre", () => {
    const region: [number, number][] = [
      [1000.04, -20.26],
      [9000, 0],
      [0, 12.5],
    ];
    expect(formatPoints(region)).toBe("1000,-20.3;9000,0;0,12.5");
    expect(parsePoints(formatPoints(region))).toEqual([
      [1000, -20.3],
      [9000, 0],
      [0, 12.5],
    ]);
  });
  it.each([undefined, "", "1", "1,2;3", "a,b;c,d", "1,2,3;4,5,6"])("are none in %s", (text) => expect(parsePoints(text)).toEqual([]));
});

describe("the query of an address", () => {
  it("keeps what does not change, and leaves out what is empty", () => {
    expect(withParams("?job=runs%2Flive&output=alerts", { output: undefined, range: "1,2" })).toBe("?job=runs/live&range=1,2");
    expect(withParams("?a=1", { a: "" })).toBe("");
  });
  it("keeps characters that mean something in an address", () => {
    const search = withParams("", { sql: "select 'a&b=c#d' + 1 from t where x > 50%" });
    expect(new URLSearchParams(search).get("sql")).toBe("select 'a&b=c#d' + 1 from t where x > 50%");
  });
});

it("numbers have as many digits as matter", () => {
  expect(short(1234.56789)).toBe("1234.57");
  expect(short(0.1 + 0.2)).toBe("0.3");
});
