// A closer look: one segment's last minutes, one vehicle's trip and account.
import { type FormEvent, useState } from "react";
import { Chart } from "../shared/chart";
import { clock, count } from "../shared/format";
import { useFresh } from "../shared/fresh";
import { ErrorNote } from "../shared/notes";
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
          <table>
            <thead>
              <tr>
                {["minute", "cars", "mph", "Lav", "toll", ""].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {data
                .slice(-6)
                .reverse()
                .map((minute) => (
                  <tr key={minute.minute}>
                    <td>{minute.minute}</td>
                    <td>{count(minute.cars)}</td>
                    <td>{minute.speed?.toFixed(0) ?? "–"}</td>
                    <td>{minute.lav ?? "–"}</td>
                    <td>{minute.toll === null ? "–" : count(minute.toll)}</td>
                    <td>{minute.accident && <i className="diamond" title="accident" />}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </>
      )}
    </section>
  );
}

export function VehicleSearch({ onSearch }: { onSearch: (vid: number | undefined) => void }) {
  const [text, setText] = useState("");
  const search = (event: FormEvent) => {
    event.preventDefault();
    onSearch(/^\d{1,10}$/.test(text.trim()) ? Number(text) : undefined);
  };
  return (
    <form className="search" role="search" onSubmit={search}>
      <input
        aria-label="Vehicle"
        placeholder="Find vehicle…"
        inputMode="numeric"
        pattern="\s*\d{1,10}\s*"
        title="A vehicle's number"
        value={text}
        onChange={(event) => setText(event.target.value)}
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
      {!data && !problem && <p className="note">Looking…</p>}
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
          <small>{vehicle.balance_from === "snapshot" ? "from the accounts" : vehicle.balance_from === "answers" ? "from its notices" : "only in the accounts"}</small>
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
          {vehicle.trips > 1 && `, its ${vehicle.trips}th`}
        </dd>
      </dl>
      <table>
        <thead>
          <tr>
            {["time", "segment", "Lav", "toll", "paid", ""].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {vehicle.notices.slice(0, 8).map((notice) => (
            <tr key={notice.time}>
              <td>{clock(notice.time)}</td>
              <td>{notice.seg}</td>
              <td>{notice.lav < 0 ? "–" : notice.lav}</td>
              <td>{count(notice.toll)}</td>
              <td>{notice.charged ? "yes" : "–"}</td>
              <td>{notice.alert !== null && <i className="diamond" title={`warned of an accident in segment ${notice.alert}`} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
