// The map of one table, and the cards beside it; its looks are in the address.
import { useCallback, useMemo, useState } from "react";
import type { Problem } from "../shared/api";
import { count } from "../shared/format";
import { numbers, short, useNumberParam } from "../shared/link";
import { param, setParams, useParam } from "../shared/router";
import { colour, useTheme } from "../shared/theme";
import type { StreetValues } from "./basemap";
import { type Frames, MapCanvas, STREET_PERIOD } from "./canvas";
import type { Choices, Setting } from "./data";
import { plain, range, shade } from "./shades";
import { ChosenCard, FilterCard, LookCard, SavingCard } from "./side";
import { listStreetValues, useBackground, useStreetValues } from "./streets";
import { TimeBar, useTime } from "./time";
import { type Attribute, formatFilter, parseFilter, passing, type Table, Tracks } from "./tracks";

const NO_ZONES: Setting["zones"] = [];

interface ShownProps {
  name: string;
  job: string | undefined;
  table: Table | undefined;
  /** whether the newest positions are of interest, not the busiest time */
  follows: boolean;
  found: Choices | undefined;
  onProblem: (problem: Problem | undefined) => void;
}

/** How positions look: what the address says of colours and tails, and how to change it. */
function useLook(table: Table | undefined) {
  const [colourBy, setColour] = useParam("colour");
  const [as, setAs] = useParam("as");
  const [tail, setTail] = useNumberParam("tail");
  const theme = useTheme();
  const shades = useMemo(() => {
    const attribute = table?.attributes.find((one) => one.name === colourBy);
    return attribute ? shade(attribute, colour("dim")) : plain(colour("accent"));
  }, [table, colourBy, theme]);
  return {
    colourBy: colourBy ?? "",
    onColour: (next: string) => setColour(next || undefined),
    shades,
    density: as === "density",
    onDensity: (on: boolean) => setAs(on ? "density" : undefined),
    tail: tail ?? 0,
    onTail: (next: number) => setTail(next || undefined),
  };
}

/** The filter in the address, and the positions that it leaves. */
function useFilter(table: Table | undefined) {
  const [text, setFilter] = useParam("filter");
  const filter = useMemo(() => parseFilter(text), [text]);
  const pass = useMemo(() => table && passing(table, filter), [table, filter]);
  return { filter, pass, onFilter: (next: Parameters<typeof formatFilter>[0]) => setFilter(formatFilter(next)) };
}

/** The selected area in the address, and whether one is being dragged. */
function useArea(tracks: Tracks | undefined) {
  const [text, setText] = useParam("area");
  const [selecting, onSelecting] = useState(false);
  const area = useMemo(() => numbers(text, 4), [text]);
  const onArea = useCallback((next: readonly number[] | undefined) => setText(next?.map((one) => short(one, 9)).join(",")), [setText]);
  const onMiddle = () => {
    if (!tracks) return;
    const [x0, y0, x1, y1] = tracks.box;
    onArea([x0 + (x1 - x0) / 4, y0 + (y1 - y0) / 4, x1 - (x1 - x0) / 4, y1 - (y1 - y0) / 4]);
  };
  return { area, onArea, selecting, onSelecting, onMiddle };
}

const onView = (view: readonly number[]) => setParams({ view: view.map((one) => short(one, 9)).join(",") });

export function Shown({ name, job, table, follows, found, onProblem }: ShownProps) {
  const tracks = useMemo(() => table && new Tracks(table), [table]);
  const look = useLook(table);
  const { filter, pass, onFilter } = useFilter(table);
  const selection = useArea(tracks);
  const [chosen, choose] = useParam("vehicle");
  const [streetBy, setStreet] = useParam("street");
  const [frames, setFrames] = useState<Frames>();
  const { streets, setting } = useBackground(job, table, found, onProblem);
  const values = useStreetValues(job, table, streetBy, setting);
  const street = streets && values;
  const streetChoices = useMemo(() => (streets ? listStreetValues(table, setting) : []), [streets, table, setting]);
  const time = useTime(tracks, follows);
  return (
    <div className="map-columns">
      <div className="map-left card">
        <MapCanvas
          subject={table ? "table" : "streets"}
          tracks={tracks}
          pass={pass}
          shades={look.shades}
          density={look.density}
          tail={look.tail}
          roads={streets}
          zones={setting && (!table || setting.world === table.world) ? setting.zones : NO_ZONES}
          tiles={found?.tiles ?? ""}
          street={street}
          clock={time.clock}
          onTick={time.onTick}
          onFrames={setFrames}
          chosen={chosen}
          onChoose={choose}
          selecting={selection.selecting}
          area={selection.area}
          onArea={selection.onArea}
          start={numbers(param("view"), 3)}
          onView={onView}
        />
        <Report frames={frames} total={tracks?.count ?? 0} />
        {tracks && table?.timed && <TimeBar tracks={tracks} pass={pass} time={time} follows={follows} />}
      </div>
      <aside>
        <LookCard {...look} table={table} streets={streetChoices} street={streetBy ?? ""} streetRange={street && rangeOf(street)} onStreet={(next) => setStreet(next || undefined)} />
        {street && <p className="dim">{isOfNow(street) ? "Streets have the values of the last commit, whatever the time on the map." : `Streets have the mean of the ${STREET_PERIOD / 60} minutes before.`}</p>}
        <FilterCard table={table} filter={filter} onFilter={onFilter} />
        <ChosenCard tracks={tracks} chosen={chosen} onChoose={choose} />
        <SavingCard name={name} tracks={tracks} pass={pass} chosen={chosen} {...selection} />
      </aside>
    </div>
  );
}

/** Whether streets have values as they are now, and not the means of positions on them. */
const isOfNow = (street: StreetValues | Attribute): street is StreetValues => "of" in street;
const rangeOf = (street: StreetValues | Attribute): readonly [number, number] => (isOfNow(street) ? street.range : range(street.values));

/** What is on the map, and whether all of it. */
function Report({ frames, total }: { frames: Frames | undefined; total: number }) {
  if (!frames || !total) return null;
  return (
    <p className="report" data-frames={frames.perSecond.toFixed(1)} data-step={frames.step}>
      {count(frames.there)} of {count(total)} now
      {frames.step > 1 && <strong>, one in {count(frames.step)} drawn to keep moving</strong>}
      {frames.perSecond > 0 && `, ${Math.round(frames.perSecond)} frames/s`}
    </p>
  );
}
