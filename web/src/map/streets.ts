// What lies below the positions of a job: its streets, its zones, and by what streets are coloured.
import { useEffect, useMemo, useState } from "react";
import type { Problem } from "../shared/api";
import { useFresh, useLatest } from "../shared/fresh";
import { useParam } from "../shared/router";
import type { StreetValues } from "./basemap";
import { type Choices, type Roads, roads, type RoadValues, segments, type Setting, setting } from "./data";
import { range } from "./shades";
import type { Attribute, Table } from "./tracks";

/** In the address: no streets, though the job has some. */
export const NONE = "none";

/** In the address, what follows is a value of segments. */
const SEGMENT = "segment ";
const SEGMENT_VALUES = ["toll", "speed", "average speed", "cars"];

/** By what streets can be coloured: tolls of a job's segments, means of positions that know their street. */
export function listStreetValues(table: Table | undefined, mine: Setting | undefined): [string, string][] {
  const means = table?.attributes.some((one) => one.name === "edge") ? table.attributes.filter((one) => !one.texts.length && one.name !== "edge") : [];
  return [...(mine?.has_segments ? SEGMENT_VALUES.map((one): [string, string] => [SEGMENT + one, `${one} of the segment`]) : []), ...means.map((one): [string, string] => [one.name, `mean ${one.name}`])];
}

export function useStreetValues(job: string | undefined, table: Table | undefined, by: string | undefined, mine: Setting | undefined): StreetValues | Attribute | undefined {
  const [tick, setTick] = useState(0);
  const name = by?.startsWith(SEGMENT) ? by.slice(SEGMENT.length) : undefined;
  useEffect(() => {
    if (name === undefined) return;
    const every = window.setInterval(() => !document.hidden && setTick((one) => one + 1), 3000);
    return () => window.clearInterval(every);
  }, [name]);
  const path = job && name !== undefined && mine?.has_segments ? segments(job) : undefined;
  const { data } = useFresh<RoadValues>(path, tick);
  const found = useLatest(data, path);
  // the same values again are no reason to draw
  const batch = found?.batch;
  return useMemo(() => {
    if (name === undefined) return table?.attributes.find((one) => one.name === by && one.name !== "edge" && !one.texts.length);
    const values = found?.values[name];
    if (!found || !values) return undefined;
    const of = new Map(found.edges.flatMap((edge, k): [number, number][] => (typeof values[k] === "number" ? [[edge, values[k]]] : [])));
    return { of, range: range([...of.values()]) };
  }, [table, by, name, batch, found?.edges.length]);
}

/** The streets and zones of a job, or those in the address. */
export function useBackground(job: string | undefined, table: Table | undefined, found: Choices | undefined, onProblem: (problem: Problem) => void) {
  const { data: mine } = useFresh<Setting>(job && setting(job), undefined);
  const [asked] = useParam("roads");
  const wanted = asked === NONE ? "" : (asked ?? (job && !mine ? "" : (mine?.roads || (found?.roads[0] ?? ""))));
  const [loaded, setLoaded] = useState<{ name: string; roads: Roads }>();
  useEffect(() => {
    if (!wanted) return;
    let stopped = false;
    roads(wanted).then((read) => !stopped && setLoaded({ name: wanted, roads: read }), onProblem);
    return () => {
      stopped = true;
    };
  }, [wanted, onProblem]);
  const there = loaded?.name === wanted ? loaded.roads : undefined;
  return { setting: mine, streets: there && (!table || there.world === table.world) ? there : undefined };
}
