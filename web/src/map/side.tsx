// Beside the map: what points look like, which are shown, what is chosen, and the way to take it along.
import { useMemo, useState } from "react";
import { count } from "../shared/format";
import { css, gradient, VIRIDIS } from "../shared/scales";
import { saveFile } from "../shared/saving";
import { select, toCsv, toGeoJson } from "./saving";
import { type Shades, TEXT_COLOURS } from "./shades";
import { type Filter, type Table, type Tracks } from "./tracks";

export const TAILS: readonly [number, string][] = [
  [0, "none"],
  [30, "30 s"],
  [120, "2 min"],
  [600, "10 min"],
  [3600, "1 h"],
];

interface LookProps {
  table: Table | undefined;
  colourBy: string;
  onColour: (name: string) => void;
  shades: Shades;
  density: boolean;
  onDensity: (on: boolean) => void;
  tail: number;
  onTail: (seconds: number) => void;
  /** by what streets can be coloured, and what the page calls it; empty if nothing is known of them */
  streets: readonly (readonly [string, string])[];
  street: string;
  streetRange: readonly [number, number] | undefined;
  onStreet: (name: string) => void;
}

export function LookCard(props: LookProps) {
  const { table, shades } = props;
  const chosen = table?.attributes.find((one) => one.name === props.colourBy);
  return (
    <section className="card look" aria-label="Look">
      <label>
        Colour by
        <select value={chosen ? props.colourBy : ""} onChange={(event) => props.onColour(event.target.value)}>
          <option value="">nothing</option>
          {table?.attributes.map((one) => (
            <option key={one.name}>{one.name}</option>
          ))}
        </select>
      </label>
      {chosen && !props.density && <Legend texts={chosen.texts} shades={shades} />}
      <div className="segmented" role="radiogroup" aria-label="Show as">
        <button role="radio" aria-checked={!props.density} onClick={() => props.onDensity(false)}>
          Points
        </button>
        <button role="radio" aria-checked={props.density} onClick={() => props.onDensity(true)}>
          Density
        </button>
      </div>
      {props.density && (
        <p className="dim">
          How many are in each square: <i className="scale" style={{ background: gradient(VIRIDIS, (share) => share) }} /> few to many.
        </p>
      )}
      <label>
        Tails
        <select value={props.tail} disabled={props.density || !table?.timed} onChange={(event) => props.onTail(Number(event.target.value))}>
          {TAILS.map(([seconds, name]) => (
            <option key={seconds} value={seconds}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {props.streets.length > 0 && (
        <label>
          Streets by
          <select value={props.street} onChange={(event) => props.onStreet(event.target.value)}>
            <option value="">nothing</option>
            {props.streets.map(([one, title]) => (
              <option key={one} value={one}>
                {title}
              </option>
            ))}
          </select>
        </label>
      )}
      {props.streetRange && <Ramp low={props.streetRange[0]} high={props.streetRange[1]} />}
    </section>
  );
}

const shown = (value: number): string => String(Number(value.toPrecision(4)));

function Ramp({ low, high }: { low: number; high: number }) {
  return (
    <div className="legend-scale">
      <span className="mono">{shown(low)}</span>
      <i className="scale" style={{ background: gradient(VIRIDIS, (share) => share) }} />
      <span className="mono">{shown(high)}</span>
    </div>
  );
}

function Legend({ texts, shades }: { texts: readonly string[]; shades: Shades }) {
  if (!texts.length) return <Ramp low={shades.low} high={shades.high} />;
  return (
    <ul className="legend-texts">
      {texts.slice(0, 24).map((text, k) => (
        <li key={text}>
          <i style={{ background: TEXT_COLOURS[k % TEXT_COLOURS.length] ?? css(VIRIDIS, 0) }} />
          {text}
        </li>
      ))}
    </ul>
  );
}

export function FilterCard({ table, filter, onFilter }: { table: Table | undefined; filter: Filter | undefined; onFilter: (filter: Filter | undefined) => void }) {
  const chosen = table?.attributes.find((one) => one.name === filter?.name);
  const number = (text: string) => (text.trim() === "" || !Number.isFinite(Number(text)) ? undefined : Number(text));
  return (
    <section className="card" aria-label="Filter">
      <label>
        Filter by
        <select value={chosen?.name ?? ""} onChange={(event) => onFilter(begin(table, event.target.value))}>
          <option value="">nothing</option>
          {table?.attributes.map((one) => (
            <option key={one.name}>{one.name}</option>
          ))}
        </select>
      </label>
      {filter && chosen && !chosen.texts.length && (
        <div className="range">
          <input aria-label="From" inputMode="decimal" placeholder="from" defaultValue={filter.low ?? ""} onChange={(event) => onFilter({ ...filter, low: number(event.target.value) })} />
          <span className="dim">to</span>
          <input aria-label="To" inputMode="decimal" placeholder="to" defaultValue={filter.high ?? ""} onChange={(event) => onFilter({ ...filter, high: number(event.target.value) })} />
        </div>
      )}
      {filter && chosen && chosen.texts.length > 0 && (
        <div className="texts">
          {chosen.texts.map((text) => (
            <label key={text}>
              <input type="checkbox" checked={filter.texts?.includes(text) ?? false} onChange={(event) => onFilter({ ...filter, texts: event.target.checked ? [...(filter.texts ?? []), text] : filter.texts?.filter((one) => one !== text) })} />
              {text}
            </label>
          ))}
        </div>
      )}
    </section>
  );
}

/** A filter that leaves everything. */
function begin(table: Table | undefined, name: string): Filter | undefined {
  const found = table?.attributes.find((one) => one.name === name);
  return found && (found.texts.length ? { name, texts: [...found.texts] } : { name });
}

interface ChosenProps {
  tracks: Tracks | undefined;
  chosen: string | undefined;
  onChoose: (owner: string | undefined) => void;
}

export function ChosenCard({ tracks, chosen, onChoose }: ChosenProps) {
  const [missing, setMissing] = useState("");
  const track = useMemo(() => {
    if (!tracks || chosen === undefined) return undefined;
    const mine = Array.from({ length: tracks.count }, (_, k) => k).filter((k) => tracks.name(k) === chosen);
    return mine.length ? mine : undefined;
  }, [tracks, chosen]);
  const here = track?.find((k) => tracks?.shown[k]) ?? track?.[0];
  const find = (event: React.FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const wanted = String(new FormData(event.currentTarget).get("id") ?? "").trim();
    const known = tracks?.table.owners.includes(wanted) ?? false;
    setMissing(known || !wanted ? "" : wanted);
    if (known) onChoose(wanted);
  };
  return (
    <section className="card" aria-label="Chosen">
      <form className="find" onSubmit={find}>
        <input name="id" aria-label="Id" placeholder="Find by id" />
        <button>Find</button>
      </form>
      {missing && (
        <p role="alert" className="dim">
          Nobody here is called {missing}.
        </p>
      )}
      {chosen !== undefined && (
        <header>
          <h3>{chosen}</h3>
          <span className="grow" />
          <button className="plain" aria-label="Let go" onClick={() => onChoose(undefined)}>
            ×
          </button>
        </header>
      )}
      {chosen !== undefined && tracks && track && here !== undefined && (
        <dl>
          <div>
            <dt>positions</dt>
            <dd>{count(track.reduce((sum, k) => sum + (tracks.table.rows[k + 1] ?? 0) - (tracks.table.rows[k] ?? 0), 0))}</dd>
          </div>
          {tracks.table.attributes.map((one) => {
            const value = one.values[tracks.at[here] ?? 0] ?? NaN;
            return (
              <div key={one.name}>
                <dt>{one.name}</dt>
                <dd>{Number.isNaN(value) ? "–" : one.texts.length ? one.texts[value] : shown(value)}</dd>
              </div>
            );
          })}
        </dl>
      )}
      {chosen !== undefined && tracks && !track && <p className="dim">Not among these positions.</p>}
    </section>
  );
}

interface SavingProps {
  name: string;
  tracks: Tracks | undefined;
  pass: Uint8Array | undefined;
  chosen: string | undefined;
  area: readonly number[] | undefined;
  onArea: (area: readonly number[] | undefined) => void;
  selecting: boolean;
  onSelecting: (on: boolean) => void;
  onMiddle: () => void;
}

export function SavingCard({ name, tracks, pass, chosen, area, onArea, selecting, onSelecting, onMiddle }: SavingProps) {
  const table = tracks?.table;
  const wanted = useMemo(() => table && select(table, { pass, area, owner: chosen }), [table, pass, area, chosen]);
  const save = (kind: "csv" | "geojson") => {
    if (!wanted) return;
    const file = `${name.replace(/[^\w.-]+/g, "-")}.${kind}`;
    saveFile(file, kind === "csv" ? toCsv(wanted) : toGeoJson(wanted), kind === "csv" ? "text/csv" : "application/geo+json");
  };
  const none = !wanted?.t.length;
  return (
    <section className="card" aria-label="Selection">
      <div className="buttons">
        <button aria-pressed={selecting} className={selecting ? "primary" : ""} onClick={() => onSelecting(!selecting)}>
          {selecting ? "Drag on the map" : "Select an area"}
        </button>
        <button onClick={onMiddle}>Middle</button>
        {area && <button onClick={() => onArea(undefined)}>Clear</button>}
      </div>
      <p role="status">
        {count(wanted?.t.length ?? 0)} positions of {count(new Set(wanted?.owner).size)} {new Set(wanted?.owner).size === 1 ? "id" : "ids"} selected
        <span className="dim">{[area ? "in the area" : "", pass ? "by the filter" : "", chosen !== undefined ? `of ${chosen}` : ""].filter(Boolean).map((one) => `, ${one}`).join("")}</span>
      </p>
      <div className="buttons">
        <button disabled={none} onClick={() => save("geojson")}>
          GeoJSON
        </button>
        <button disabled={none} onClick={() => save("csv")}>
          CSV
        </button>
      </div>
    </section>
  );
}
