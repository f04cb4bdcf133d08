import { describe, expect, it } from "vitest";
import { byEdge } from "../src/map/basemap";
import { Budget, disc, parseColour, Pixels, word } from "../src/map/paint";
import { locate, select, toCsv, toGeoJson } from "../src/map/saving";
import { range, shade } from "../src/map/shades";
import { formatFilter, histogram, keepNewest, merge, parseFilter, passing, readTable, type Table, Tracks } from "../src/map/tracks";
import { View } from "../src/shared/view";

type Row = [owner: string, t: number, x: number, y: number, speed: number];

/** A table of rows, built the plain way. */
function table(rows: Row[], more: Partial<Table> = {}): Table {
  const owners = [...new Set(rows.map(([owner]) => owner))];
  const sorted = owners.flatMap((owner) => rows.filter((row) => row[0] === owner).sort((a, b) => a[1] - b[1]));
  const starts = owners.map((owner) => sorted.findIndex((row) => row[0] === owner));
  return {
    batch: 0,
    isCut: false,
    world: "plane",
    timed: true,
    unplaced: 0,
    origin: [0, 0],
    owners,
    owner: Int32Array.from(owners.keys()),
    rows: Int32Array.of(...starts, sorted.length),
    t: Float64Array.from(sorted, (row) => row[1]),
    x: Float32Array.from(sorted, (row) => row[2]),
    y: Float32Array.from(sorted, (row) => row[3]),
    attributes: [{ name: "speed", texts: [], values: Float32Array.from(sorted, (row) => row[4]) }],
    ...more,
  };
}

const rowsOf = (found: Table): Row[] =>
  [...found.owner].flatMap((owner, k) =>
    Array.from({ length: (found.rows[k + 1] ?? 0) - (found.rows[k] ?? 0) }, (_, n): Row => {
      const i = (found.rows[k] ?? 0) + n;
      return [found.owners[owner] ?? "", found.t[i] ?? NaN, (found.x[i] ?? NaN) + found.origin[0], (found.y[i] ?? NaN) + found.origin[1], found.attributes[0]?.values[i] ?? NaN];
    }),
  );

/** Where something is at a time, looked for from the beginning. */
function slow(rows: Row[], owner: string, time: number, hold: number): [number, number] | undefined {
  const mine = rows.filter((row) => row[0] === owner).sort((a, b) => a[1] - b[1]);
  const before = mine.filter((row) => row[1] <= time).at(-1);
  const next = mine.find((row) => row[1] > time);
  if (!before || (!next && time > before[1] + hold)) return undefined;
  if (!next) return [before[2], before[3]];
  if (next[1] - before[1] > hold) return time - before[1] > hold ? undefined : [before[2], before[3]];
  const share = (time - before[1]) / (next[1] - before[1]);
  return [before[2] + share * (next[2] - before[2]), before[3] + share * (next[3] - before[3])];
}

let seed = 7;
const random = (below: number): number => (seed = (seed * 16807) % 2147483647) % below;
const someRows = (many: number): Row[] => {
  const used = new Set<string>();
  return Array.from({ length: many }, (): Row => ["abcdef"[random(6)] ?? "a", random(400), random(1000), random(1000), random(100)]).filter(([owner, t]) => !used.has(`${owner}${t}`) && used.add(`${owner}${t}`));
};

describe("tracks", () => {
  it("are where a search from the beginning finds them, whichever way time goes", () => {
    const rows = someRows(120);
    const tracks = new Tracks(table(rows));
    for (let n = 0; n < 300; n++) {
      const time = n % 3 ? n : random(450);
      tracks.look(time, undefined);
      tracks.table.owners.forEach((owner, k) => {
        const expected = slow(rows, owner, time, tracks.hold);
        expect(tracks.shown[k] === 1, `${owner} at ${time}`).toBe(expected !== undefined);
        if (expected) expect(Math.hypot((tracks.x[k] ?? 0) - expected[0], (tracks.y[k] ?? 0) - expected[1])).toBeLessThan(0.01);
      });
    }
  });
  it("are shown while their last position passes the filter", () => {
    const one = table([["a", 0, 0, 0, 10], ["a", 10, 5, 5, 50], ["b", 0, 1, 1, 20]]);
    const tracks = new Tracks(one);
    const pass = passing(one, { name: "speed", low: 15, high: 60 });
    expect(tracks.look(5, pass)).toBe(1);
    expect(tracks.look(10, pass)).toBe(2);
    expect(tracks.look(5, undefined)).toBe(2);
  });
  it("without a time are all shown", () => {
    const tracks = new Tracks(table([["a", 0, 0, 0, 0], ["b", 0, 9, 9, 0]], { timed: false }));
    expect(tracks.look(1e9, undefined)).toBe(2);
    expect(tracks.box).toEqual([0, 0, 9, 9]);
    expect(tracks.nearest(8, 9, 5)).toBe(1);
    expect(tracks.nearest(5, 5, 1)).toBeUndefined();
  });
});

describe("merging", () => {
  it("gives what all rows at once give, in whatever order they come", () => {
    for (let n = 0; n < 30; n++) {
      const rows = someRows(60);
      const cut = random(60);
      const [old, next] = [rows.slice(0, cut), rows.slice(cut)];
      const shifted = next.map(([owner, t, x, y, speed]): Row => [owner, t, x - 500, y + 200, speed]);
      const both = merge(table(old), table(shifted, { origin: [500, -200], batch: 4 }));
      expect(both.batch).toBe(4);
      const sorted = (found: Row[]) => found.map((row) => row.join()).sort();
      expect(sorted(rowsOf(both))).toEqual(sorted(rows));
      for (let k = 0; k + 1 < both.rows.length; k++) {
        const mine = [...both.t.subarray(both.rows[k], both.rows[k + 1])];
        expect(mine).toEqual([...mine].sort((a, b) => a - b));
      }
    }
  });
  it("keeps texts apart that have different numbers", () => {
    const kinds = (texts: string[], code: number) => [{ name: "kind", texts, values: Float32Array.of(code) }];
    const both = merge(table([["a", 0, 0, 0, 0]], { attributes: kinds(["bus"], 0) }), table([["b", 1, 0, 0, 0]], { attributes: kinds(["bicycle", "bus"], 0) }));
    expect(both.attributes[0]?.texts).toEqual(["bus", "bicycle"]);
    expect([...(both.attributes[0]?.values ?? [])]).toEqual([0, 1]);
  });
  it("lets go of the oldest", () => {
    const kept = keepNewest(table([["a", 0, 0, 0, 0], ["a", 5, 0, 0, 0], ["b", 9, 0, 0, 0]]), 2);
    expect([[...kept.t], kept.isCut]).toEqual([[5, 9], true]);
  });
});

describe("filters and colours", () => {
  it("are read from an address as they were written", () => {
    for (const text of ["speed:20..50", "speed:..50", "speed:-3.5..", "kind:bus|car", "kind:"]) expect(formatFilter(parseFilter(text))).toBe(text);
    for (const text of ["", "speed", ":1..2", undefined, "speed:1.2.3..4"]) expect(parseFilter(text)).toBeUndefined();
  });
  it("count positions by time", () => {
    const one = table([["a", 0, 0, 0, 1], ["a", 4, 0, 0, 9], ["b", 10, 0, 0, 9]]);
    expect([...histogram(one, undefined, 0, 10, 2)]).toEqual([2, 1]);
    expect([...histogram(one, passing(one, { name: "speed", low: 5 }), 0, 10, 2)]).toEqual([1, 1]);
  });
  it("leave outliers off the scale, and give texts colours of their own", () => {
    expect(range(Float32Array.from({ length: 1000 }, (_, i) => (i === 0 ? 1e9 : i)))).toEqual([21, 980]);
    const { codes, low, high } = shade({ name: "v", texts: [], values: Float32Array.of(0, 5, 10, NaN) }, "#999999");
    expect([[...(codes ?? [])], low, high]).toEqual([[0, 127, 254, 255], 0, 10]);
    const texts = shade({ name: "v", texts: ["a", "b"], values: Float32Array.of(1, 0, NaN) }, "#999999");
    expect([...(texts.codes ?? [])]).toEqual([1, 0, 255]);
    expect(texts.words[0]).not.toBe(texts.words[1]);
  });
  it("give streets the mean of a period", () => {
    const one = table([["a", 0, 0, 0, 10], ["a", 5, 0, 0, 20], ["b", 5, 0, 0, 40], ["b", 99, 0, 0, 80]]);
    expect([...byEdge(one, Float32Array.of(1, 1, 1, 1), one.attributes[0]?.values ?? new Float32Array(0), 1, 50)]).toEqual([[1, 30]]);
  });
});

describe("drawing", () => {
  it("puts a dot where it belongs, and none outside", () => {
    const pixels = new Pixels();
    pixels.clear(10, 8);
    pixels.dot(4, 3, disc(3), 7);
    expect([...pixels.words].flatMap((one, i) => (one ? [`${i % 10},${Math.floor(i / 10)}`] : []))).toEqual(["3,2", "4,2", "5,2", "3,3", "4,3", "5,3", "3,4", "4,4", "5,4"]);
    pixels.clear(10, 8);
    for (const [x, y] of [[-9, 3], [4, -9], [20, 3], [4, 20]] as const) pixels.dot(x, y, disc(3), 7);
    expect(pixels.words.some((one) => one !== 0)).toBe(false);
    pixels.dot(0, 0, disc(5), 7);
    expect(pixels.words[0]).toBe(7);
  });
  it("draws a line between its ends, and only inside", () => {
    const pixels = new Pixels();
    pixels.clear(6, 6);
    pixels.line(-2, -2, 9, 9, 7);
    expect([...pixels.words].flatMap((one, i) => (one ? [i] : []))).toEqual([0, 7, 14, 21, 28, 35]);
  });
  it("packs colours as images have them", () => {
    expect(parseColour("#010203")).toBe(word(1, 2, 3));
    expect([...new Uint8Array(Uint32Array.of(word(1, 2, 3, 4)).buffer)]).toEqual([1, 2, 3, 4]);
  });
  it("draws fewer when frames take too long, and all again when they do not", () => {
    const budget = new Budget(28);
    for (let n = 0; n < 3; n++) budget.note(90);
    expect(budget.step).toBeGreaterThan(1);
    for (let n = 0; n < 40; n++) budget.note(2);
    expect(budget.step).toBe(1);
  });
});

describe("saving", () => {
  const one = table([["a, b", 0, 0, 0, 1.5], ["a, b", 10, 111319.4907932264, 0, NaN], ["c", 5, 0, 111.319491, 3]], { world: "earth" });
  it("writes the places in degrees", () => {
    expect(locate(111319.4907932264, 0)).toEqual([1, 0]);
    expect(toCsv(one).split("\n")).toEqual(["id,time,lon,lat,speed", '"a, b",0,0,0,1.5', '"a, b",10,1,0,', "c,5,0,0.001,3", ""]);
    const features = (JSON.parse(toGeoJson(one)) as { features: { geometry: { type: string; coordinates: unknown } }[] }).features;
    expect(features.map((feature) => feature.geometry)).toEqual([
      { type: "LineString", coordinates: [[0, 0, 0, 0], [1, 0, 0, 10]] },
      { type: "Point", coordinates: [0, 0.001, 0, 5] },
    ]);
  });
  it("takes what the filter, the area and the choice leave", () => {
    expect(rowsOf(select(one, { pass: undefined, area: [-1, -1, 1, 1], owner: undefined })).map((row) => row.slice(0, 2))).toEqual([["a, b", 0]]);
    expect(rowsOf(select(one, { pass: undefined, area: undefined, owner: "c" })).length).toBe(1);
    expect(rowsOf(select(one, { pass: passing(one, { name: "speed", low: 2 }), area: undefined, owner: undefined })).map((row) => row[0])).toEqual(["c"]);
  });
});

describe("reading", () => {
  it("undoes the packing", () => {
    const head = new TextEncoder().encode(JSON.stringify({ batch: 3, is_cut: true, begin: 100, tick: 0.5, origin: [1, 2], world: "earth", timed: true, unplaced: 4, owners: ["a"], attributes: [{ name: "v", texts: ["x"] }] }));
    const padded = new Uint8Array(Math.ceil(head.length / 4) * 4).fill(32);
    padded.set(head);
    const arrays = [new Uint32Array(padded.buffer), Int32Array.of(0, 2), Int32Array.of(0), Int32Array.of(0, 20), Float32Array.of(5, 6), Float32Array.of(7, 8), Float32Array.of(0, NaN)];
    const align = (n: number) => Math.ceil(n / 8) * 8;
    const first = align(4 + 4 * arrays.length);
    const buffer = new ArrayBuffer(first + arrays.reduce((sum, one) => sum + align(one.byteLength), 0));
    new Uint32Array(buffer, 0, 1 + arrays.length).set([arrays.length, ...arrays.map((one) => one.length)]);
    let at = first;
    for (const one of arrays) {
      new Uint8Array(buffer, at).set(new Uint8Array(one.buffer));
      at += align(one.byteLength);
    }
    const read = readTable(buffer);
    expect([[...read.t], [...read.x], read.batch, read.isCut, read.attributes[0]?.name, [...read.rows]]).toEqual([[100, 110], [5, 6], 3, true, "v", [0, 2]]);
  });
});

describe("a view", () => {
  it("keeps the place under the pointer while it zooms", () => {
    const view = new View([0, 0, 100, 50]);
    view.fit(400, 300);
    const before = view.metres(120, 80);
    view.zoom(120, 80, 1.7);
    expect(view.metres(120, 80).map((one) => Math.round(one * 1e6))).toEqual(before.map((one) => Math.round(one * 1e6)));
    view.move(10, -5);
    const [x, y] = before;
    expect([view.px(x), view.py(y)].map(Math.round)).toEqual([130, 75]);
  });
});
