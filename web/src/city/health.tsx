// The stream's health against its limits.
import { Figure } from "../shared/figure";
import { count, duration } from "../shared/format";
import { SERIES } from "../shared/scales";
import type { KindHealth, State } from "./types";

const KINDS: Record<string, string> = {
  toll: "Toll notification",
  alert: "Accident alert",
  balance: "Balance",
  expenditure: "Daily expenditure",
  travel_time: "Travel time",
};

export function Figures({ state }: { state: State }) {
  const { health } = state;
  const stable = health.stable === null ? "–" : health.stable ? "yes" : "no";
  return (
    <dl className="figures">
      <Figure name="Cars on the road" value={count(state.cars)} />
      <Figure name="Mean speed" value={state.mean_speed === null ? "–" : state.mean_speed.toFixed(0)} unit="mph" />
      <Figure name="Arrivals" value={health.arrival_rate === null ? "–" : count(health.arrival_rate)} unit="tuples/s" />
      <Figure name="Between two" value={duration(health.interarrival)} />
      <Figure name="Commit, mean" value={duration(health.commit)} />
      <Figure name="Query capacity left" value={duration(health.capacity)} alarm={health.stable === false} />
      <Figure name="Lag" value={duration(health.lag)} alarm={(health.lag ?? 0) > 5} />
      <Figure name="Stable" value={stable} alarm={health.stable === false} />
    </dl>
  );
}

export function Responses({ kinds, paced }: { kinds: readonly KindHealth[]; paced: boolean }) {
  return (
    <section className="card responses">
      <header>
        <h3>Response times</h3>
        <span className="dim">last minute, against the limit</span>
      </header>
      {!paced && <p className="note">At full speed there is no clock to measure against. Start at a pace to see them.</p>}
      {paced && (
        <table>
          <thead>
            <tr>
              <th scope="col">Answer</th>
              <th scope="col">p50</th>
              <th scope="col">p99</th>
              <th scope="col">max</th>
              <th scope="col">limit</th>
            </tr>
          </thead>
          <tbody>
            {kinds.map((kind, at) => (
              <KindRows key={kind.kind} kind={kind} colour={SERIES[at] ?? SERIES[0]} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function KindRows({ kind, colour }: { kind: KindHealth; colour: string }) {
  const late = (kind.recent?.most ?? 0) > kind.limit;
  const share = (value: number) => `${Math.min(100, (100 * value) / kind.limit)}%`;
  const cell = (value: number | undefined) => <td className="mono">{value === undefined ? "–" : value.toFixed(1)}</td>;
  return (
    <>
      <tr className={late ? "alarm" : ""}>
        <th scope="row">
          <i style={{ background: colour }} />
          {KINDS[kind.kind] ?? kind.kind}
        </th>
        {cell(kind.recent?.p50)}
        {cell(kind.recent?.p99)}
        {cell(kind.recent?.most)}
        <td className="mono dim">{kind.limit} s</td>
      </tr>
      <tr aria-hidden="true">
        <td colSpan={5}>
          <div className={`bullet ${late ? "alarm" : ""}`}>
            {kind.recent && (
              <>
                <i className="most" style={{ width: share(kind.recent.most) }} />
                <i className="p99" style={{ width: share(kind.recent.p99) }} />
                <i className="p50" style={{ left: share(kind.recent.p50) }} />
              </>
            )}
          </div>
        </td>
      </tr>
    </>
  );
}
