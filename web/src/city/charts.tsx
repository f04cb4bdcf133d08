// Charts of the last batches.
import { useMemo } from "react";
import { Chart } from "../shared/chart";
import { useRangeParam } from "../shared/link";
import { SERIES } from "../shared/scales";
import { colour, useTheme } from "../shared/theme";
import type { Beat } from "./types";

const KINDS = ["toll", "alert", "balance", "expenditure", "travel time"];
const KIND_LINES = KINDS.map((label, at) => ({ label, colour: SERIES[at] ?? SERIES[0] }));

export function Charts({ beats, limit }: { beats: readonly Beat[]; limit: number | undefined }) {
  const theme = useTheme();
  const [range, onRange] = useRangeParam("range");
  const zoom = { range, onRange };
  const data = useMemo(() => columns(beats), [beats]);
  const ink = useMemo(() => ({ main: colour("accent"), soft: colour("soft"), dim: colour("dim") }), [theme]);
  const rates = [
    { label: "input", colour: ink.main, fill: ink.soft },
    { label: "answers", colour: SERIES[0] },
  ];
  const commits = [
    { label: "commit", colour: ink.main, fill: ink.soft },
    { label: "budget", colour: ink.dim, dash: [4, 3] },
  ];
  return (
    <div className="charts">
      <Chart {...zoom} title="Tuples" unit="/s" x={data.x} lines={rates} values={data.rates} />
      <Chart {...zoom} title="Response time, p99" unit="s" x={data.x} lines={KIND_LINES} values={data.responses} limit={limit} bare />
      <Chart {...zoom} title="Commit time" unit="s" x={data.x} lines={commits} values={data.commits} />
      <Chart {...zoom} title="Lag" unit="s" x={data.x} lines={[{ label: "behind the clock", colour: ink.main, fill: ink.soft }]} values={data.lag} />
    </div>
  );
}

function columns(beats: readonly Beat[]) {
  const per = (value: number | null, beat: Beat) => (value === null || !beat.seconds ? null : value / beat.seconds);
  return {
    x: beats.map((beat) => beat.second),
    rates: [beats.map((beat) => per(beat.tuples, beat)), beats.map((beat) => per(beat.answers, beat))],
    responses: KINDS.map((_, kind) => beats.map((beat) => beat.responses[kind]?.p99 ?? null)),
    commits: [beats.map((beat) => beat.commit), beats.map((beat) => beat.budget)],
    lag: [beats.map((beat) => beat.lag)],
  };
}
