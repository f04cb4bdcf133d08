// The health of the stream, compared with its limits.
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

/** the response time limit of tolls and alerts, in seconds */
export const LIMIT = 5;

/** The limits apply in real time only: at 10×, ten seconds of the run pass in one. */
export const limitsApply = (state: State): boolean => state.speed === 1;

export function Figures({ state }: { state: State }) {
  const { health } = state;
  const stable = health.stable === null ? "–" : health.stable ? "yes" : "no";
  // no alarms for a run that has ended: there is nothing to do about it
  const alarming = state.status === "running";
  const behind = alarming && health.stable === false;
  return (
    <dl className="figures" aria-label={alarming ? "The last minute" : "The last minute before the end"}>
      <Figure name="Cars on the road" value={count(state.cars)} />
      <Figure name="Mean speed" value={state.mean_speed === null ? "–" : state.mean_speed.toFixed(0)} unit="mph" />
      <Figure name="Arrival rate" value={health.arrival_rate === null ? "–" : count(health.arrival_rate)} unit="tuples/s" />
      <Figure name="Time between tuples" value={duration(health.interarrival)} />
      <Figure name="Mean commit time" value={duration(health.commit)} />
      <Figure name="Query time capacity" value={duration(health.capacity)} alarm={behind} />
      <Figure name="Lag" value={duration(health.lag)} alarm={alarming && limitsApply(state) && (health.lag ?? 0) > LIMIT} />
      <Figure name="Stable" value={stable} alarm={behind} />
    </dl>
  );
}

export function Responses({ state }: { state: State }) {
  const { kinds } = state.health;
  const paced = state.speed !== 0 || kinds.some((kind) => kind.recent);
  const limited = limitsApply(state);
  return (
    <section className="card responses">
      <header>
        <h3>Response times</h3>
        <span className="dim">{limited ? "last minute, compared with the limit" : paced ? `last minute; limits do not apply at ${state.speed}×` : ""}</span>
      </header>
      {!paced && <p className="note">A run at full speed has no clock, and so no response times. Start it at another speed to see them.</p>}
      {paced && (
        <table>
          <thead>
            <tr>
              <th scope="col">Answer</th>
              <th scope="col">p50</th>
              <th scope="col">p99</th>
              <th scope="col">max</th>
              {limited && <th scope="col">limit</th>}
            </tr>
          </thead>
          <tbody>
            {kinds.map((kind, at) => (
              <KindRows key={kind.kind} kind={kind} limited={limited} alarming={state.status === "running"} colour={SERIES[at] ?? SERIES[0]} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function KindRows({ kind, limited, alarming, colour }: { kind: KindHealth; limited: boolean; alarming: boolean; colour: string }) {
  const late = limited && alarming && (kind.recent?.most ?? 0) > kind.limit;
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
        {limited && <td className="mono dim">{kind.limit} s</td>}
      </tr>
      {limited && (
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
      )}
    </>
  );
}
