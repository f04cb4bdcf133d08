// Details: the last minutes of a segment, the trip and account of a vehicle.
import { type FormEvent, useState } from "react";
import { Chart } from "../shared/chart";
import { clock, count } from "../shared/format";
import { useFresh } from "../shared/fresh";
import { ErrorNote } from "../shared/notes";
import { Rows, text } from "../shared/rows";
import { SERIES } from "../shared/scales";
import { HEADING, MILE, type Place, type SegmentMinute, type Vehicle } from "./types";

const LANES = ["entry ramp", "lane 1", "lane 2", "lane 3", "exit ramp"];

export function SegmentCard({ place, second, onClose }: { place: Place; second: number; onClose: () => void }) {
  const path = `/api/city/expressways/${place.xway}/${place.dir}/${place.seg}?minutes=10`;
  const { data, problem } = useFresh<SegmentMinute[]>(second >= 0 ? path : undefined, second);
  return (
    <section className="card detail" aria-label="Segment">
      <header>
        <h3>
          Expressway {place.xway} {HEADING[place.dir]}, segment {place.seg}
        </h3>
        <span className="grow" />
        <button className="plain" onClick={onClose} aria-label="Close segment">
          ×
        </button>
      </header>
      {problem && <ErrorNote problem={problem} />}
      {data && (
        <>
          <Chart
            title="Last minutes"
            unit=""
            height={96}
            x={data.map((minute) => (minute.minute - 1) * 60)}
            lines={[
              { label: "cars", colour: SERIES[2] },
              { label: "mph", colour: SERIES[0] },
            ]}
            values={[data.map((minute) => minute.cars), data.map((minute) => minute.speed)]}
          />
          <Rows
            columns={["minute", "cars", "mph", "Lav", "toll", ""]}
            rows={data
              .slice(-6)
              .reverse()
              .map((minute) => [
                minute.minute,
                count(minute.cars),
                minute.speed?.toFixed(0) ?? "–",
                text(minute.lav),
                minute.toll === null ? "–" : count(minute.toll),
                minute.accident && <i className="diamond" title="accident" />,
              ])}
          />
        </>
      )}
    </section>
  );
}

export function VehicleSearch({ onSearch }: { onSearch: (vid: number | undefined) => void }) {
  const [typed, setTyped] = useState("");
  const search = (event: FormEvent) => {
    event.preventDefault();
    onSearch(/^\d{1,10}$/.test(typed.trim()) ? Number(typed) : undefined);
  };
  return (
    <form className="search" role="search" onSubmit={search}>
      <input
        aria-label="Vehicle"
        placeholder="Find vehicle…"
        inputMode="numeric"
        pattern="\s*\d{1,10}\s*"
        title="A vehicle number"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </form>
  );
}

export function VehicleCard({ vid, second, onClose, onShow }: { vid: number; second: number; onClose: () => void; onShow: (place: Place) => void }) {
  const { data, problem } = useFresh<Vehicle>(second >= 0 ? `/api/city/vehicles/${vid}` : undefined, second);
  return (
    <section className="card detail" aria-label="Vehicle">
      <header>
        <h3>Vehicle {vid}</h3>
        <span className="dim">{data && (data.on_the_road ? "on the road" : `last seen ${clock(data.last.time)}`)}</span>
        <span className="grow" />
        <button className="plain" onClick={onClose} aria-label="Close vehicle">
          ×
        </button>
      </header>
      {problem && <ErrorNote problem={problem} />}
      {!data && !problem && <p className="note">Loading…</p>}
      {data && <VehicleFacts vehicle={data} onShow={onShow} />}
    </section>
  );
}

function VehicleFacts({ vehicle, onShow }: { vehicle: Vehicle; onShow: (place: Place) => void }) {
  const { last } = vehicle;
  return (
    <>
      <dl className="facts-list">
        <dt>Balance</dt>
        <dd className="balance" data-testid="balance">
          {vehicle.balance === null ? "–" : count(vehicle.balance)}
          <small>{vehicle.balance_from === "snapshot" ? "from the accounts" : vehicle.balance_from === "answers" ? "from notifications" : "not available here"}</small>
        </dd>
        <dt>Position</dt>
        <dd>
          <button className="plain link" onClick={() => onShow(last)}>
            Expressway {last.xway} {HEADING[last.dir]}, mile {(last.pos / MILE).toFixed(2)}
          </button>
        </dd>
        <dt>Speed</dt>
        <dd>
          {last.spd} mph, {LANES[last.lane]}
        </dd>
        <dt>Trip</dt>
        <dd>
          since {clock(vehicle.since)} from segment {vehicle.entered}
          {vehicle.exit !== null && ` to ${vehicle.exit}`}
          {vehicle.trips > 1 && `, trip ${vehicle.trips}`}
        </dd>
      </dl>
      <Rows
        columns={["time", "segment", "Lav", "toll", "paid", ""]}
        rows={vehicle.notices
          .slice(0, 8)
          .map((notice) => [
            clock(notice.time),
            notice.seg,
            notice.lav < 0 ? "–" : notice.lav,
            count(notice.toll),
            notice.charged ? "yes" : "–",
            notice.alert !== null && <i className="diamond" title={`accident alert for segment ${notice.alert}`} />,
          ])}
      />
    </>
  );
}
