// What a box costs and remembers, over time: the place to look for the bottleneck, and for state that grows.
import { useEffect, useMemo, useState } from "react";
import { Chart } from "../shared/chart";
import { Figure } from "../shared/figure";
import { bytes, count } from "../shared/format";
import { colour } from "../shared/theme";
import { bottleneckOf, percent } from "./load";
import { type BoxHistory, history, type RunState } from "./server";

export function BoxLoad({ name, run }: { name: string; run: RunState }) {
  const [found, setFound] = useState<BoxHistory>();
  const load = run.boxes[name];
  useEffect(() => {
    let wanted = true;
    history(name).then((one) => wanted && setFound(one), () => undefined);
    return () => {
      wanted = false;
    };
  }, [name, run.folder, run.batches]);
  const x = useMemo(() => found?.at.map((at) => at - (found.at[0] ?? at)) ?? [], [found]);
  if (!load) return null;
  return (
    <>
      <dl className="load-figures">
        <Figure name="of the time" value={percent(load.share)} tip="Its share of the time of all boxes. The box with the most is the bottleneck." alarm={bottleneckOf(run.boxes) === name} />
        <Figure name="busy" value={percent(load.busy)} tip="How much of the last seconds it worked. Near 100 %, its input waits." />
        <Figure name="rows" value={count(load.rows)} tip="What it remembers between batches: groups, waiting tuples, keys." />
        <Figure name="state" value={bytes(load.bytes)} tip="The memory that these rows take." />
      </dl>
      <Chart title="Busy" unit="%" height={84} bare x={x} lines={[{ label: "busy", colour: colour("accent") }]} values={[found?.busy.map((one) => (one === null ? null : one * 100)) ?? []]} />
      <Chart title="State" unit="" height={84} bare x={x} lines={[{ label: "state", colour: colour("mark") }]} values={[found?.bytes ?? []]} format={bytes} />
      <Chart title="Longest delay of an output" unit="s" height={84} bare x={x} lines={[{ label: "delay", colour: colour("dim") }]} values={[found?.delay ?? []]} />
    </>
  );
}
