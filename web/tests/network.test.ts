import { describe, expect, it } from "vitest";
import { firstInput, isComplete, kindOfInput, mapping, readsFeeds } from "../src/network/input";
import { layersIn, layout, WIDTH } from "../src/network/layout";
import { bottleneckOf, percent, standingOf, sumLoads } from "../src/network/load";
import * as m from "../src/network/model";
import { framesOf, stageOf } from "../src/network/stages";

const doc: m.Doc = { ...m.EMPTY, sources: { cars: { id: "string", time: "bigint" } }, boxes: { a: { map: {}, from: "cars" }, b: { map: {}, from: "a" } }, outputs: { out: { from: "b" } } };
const chain = (length: number) => Array.from({ length }, (_, i) => ({ id: `n${i}`, height: 68 }));
const arcs = (length: number) => Array.from({ length: length - 1 }, (_, i) => [`n${i}`, `n${i + 1}`] as [string, string]);

describe("the layout of a long stream", () => {
  it("wraps into lines that are equally long and below each other", () => {
    const { places, lines } = layout(chain(7), arcs(7), 4);
    expect(Object.values(lines)).toEqual([0, 0, 0, 0, 1, 1, 1]);
    expect(places.n4?.x).toBe(places.n0?.x);
    expect((places.n4?.y ?? 0) - (places.n0?.y ?? 0)).toBeGreaterThan(100);
  });
  it("does not wrap what fits", () => {
    const { places, lines } = layout(chain(4), arcs(4), 4);
    expect(new Set(Object.values(lines))).toEqual(new Set([0]));
    expect(new Set(Object.values(places).map(({ y }) => y)).size).toBe(1);
  });
  it("never overlaps boxes, whatever the width", () => {
    const spots = [...chain(9), { id: "side", height: 200 }, { id: "other", height: 90 }];
    for (const most of [1, 2, 3, 5]) {
      const { places } = layout(spots, [...arcs(9), ["n0", "side"], ["n0", "other"]], most);
      spots.forEach((one, i) =>
        spots.slice(i + 1).forEach((two) => {
          const [p, q] = [places[one.id], places[two.id]];
          if (!p || !q) throw new Error("not placed");
          const apart = p.x + WIDTH <= q.x || q.x + WIDTH <= p.x || p.y + one.height <= q.y || q.y + two.height <= p.y;
          expect(apart, `${one.id} and ${two.id}, ${most} in a line`).toBe(true);
        }),
      );
    }
  });
  it("has at least one layer in a line", () => {
    expect(layersIn(10)).toBe(1);
    expect(layersIn(WIDTH)).toBe(1);
    expect(layersIn(3 * WIDTH + 2 * 84)).toBe(3);
  });
});

it("a stage that wraps has a frame in each of its lines", () => {
  const stages = [{ stage: 1, boxes: ["a", "b"], keys: [], partitions: 1, summary: "stage 1" }];
  const drawn = [
    { id: "boxes.a", position: { x: 0, y: 0 } },
    { id: "boxes.b", position: { x: 0, y: 200 } },
  ];
  const frames = framesOf(doc, stages, stageOf(doc, stages), drawn, { "boxes.a": 0, "boxes.b": 1 }, WIDTH);
  expect(frames.map(({ line, y, height }) => [line, y < 200, height < 150])).toEqual([
    [0, true, true],
    [1, true, true],
  ]);
});

describe("what a source reads", () => {
  it("is known by its text", () => {
    expect(["cars.csv", "arriving", "kafka:a:1/b", "tcp:a:1"].map((one) => kindOfInput(one, ["arriving"]))).toEqual(["recording", "folder", "topic", "socket"]);
    expect(readsFeeds(doc, { "sources.cars": "cars.csv" }, [])).toBe(false);
    expect(readsFeeds(doc, { "sources.cars": "kafka:a:1/b" }, [])).toBe(true);
    expect(readsFeeds(doc, { "tables.cars": "kafka:a:1/b" }, [])).toBe(false);
  });
  it("is looked at when its address is complete", () => {
    expect(["kafka:", "kafka:a", "kafka:a:1/", "kafka:a:1/b", "tcp:a", "tcp:a:1", "", "cars.csv"].map(isComplete)).toEqual([false, false, false, true, false, true, false, true]);
  });
  it("comes from the palette", () => expect((["topic", "socket", "folder", "source"] as const).map((one) => firstInput(one, ["in"]))).toEqual(["kafka:", "tcp:", "in", ""]));
  it("is mapped where names differ", () => {
    expect(mapping(doc, { "sources.cars": { id: "vin", time: "ts:ms", gone: "x" } })).toEqual(["cars.id=vin", "cars.time=ts:ms"]);
    expect(mapping(doc, { "sources.cars": { id: "id", time: " " } })).toEqual([]);
  });
  it("is a source, whatever it reads", () => {
    const [made, id] = m.add(doc, "topic", "");
    expect(id).toBe("sources.topic_1");
    expect(made.sources.topic_1).toEqual({});
  });
});

describe("the bottleneck", () => {
  const box = (share: number) => ({ share, busy: share / 2, rows: 10, bytes: 80 });
  const idle = { ...box(0.7), busy: 0.02 };
  it("takes the most of the time, if that is much", () => {
    expect(bottleneckOf({ a: box(0.2), b: box(0.7), c: box(0.1) })).toBe("b");
    expect(bottleneckOf({ a: box(0.25), b: box(0.25), c: box(0.25), d: box(0.25) })).toBeUndefined();
    expect(bottleneckOf({ a: box(1) })).toBeUndefined();
  });
  it("is not a box that is idle most of the time", () => {
    expect(standingOf({ a: box(0.2), b: idle }, ["b"])).toBe("busiest");
    expect(standingOf({ a: box(0.2), b: { ...idle, busy: null } }, ["b"])).toBe("busiest");
    expect(standingOf({ a: box(0.2), b: box(0.7) }, ["x", "b"])).toBe("bottleneck");
    expect(standingOf({ a: box(0.2), b: box(0.7) }, ["a"])).toBe("");
    expect(standingOf(undefined, ["a"])).toBe("");
  });
  it("is a group as well as a box", () => {
    expect(sumLoads([])).toBeUndefined();
    expect(sumLoads([box(0.2), box(0.3)])).toEqual({ share: 0.5, busy: 0.25, rows: 20, bytes: 160 });
    expect(sumLoads([box(0.2), { ...box(0.3), busy: null }])?.busy).toBeNull();
  });
  it("has a percentage", () => expect([0, 0.004, 0.5, null].map(percent)).toEqual(["0 %", "<1 %", "50 %", "–"]));
});
