// Map: where everything of a job is, as of its last commit, on its streets; or what is in a file. The address has the view.
import "./map.css";
import { type DragEvent, useEffect, useMemo, useRef, useState } from "react";
import type { Problem } from "../shared/api";
import { count } from "../shared/format";
import { useFresh } from "../shared/fresh";
import { ErrorNote } from "../shared/notes";
import { setParams, useParam } from "../shared/router";
import { type Choices, choices, drop, type Layer, positions } from "./data";
import { Shown } from "./shown";
import { NONE } from "./streets";
import { merge, type Table } from "./tracks";

/** Milliseconds between requests: of a job that commits, and of one that has been quiet for a while. */
const [SOON, LATER] = [1500, 6000];
/** What the address has about the table on display. */
const NOTHING = { layer: undefined, colour: undefined, filter: undefined, street: undefined, vehicle: undefined, area: undefined, time: undefined, view: undefined, crs: undefined, roads: undefined };
const SHOWABLE = "A job can be shown if one of its outputs has columns lon and lat, x and y, or trips.";

interface Dropped {
  /** how many files were opened before: two may have one name */
  number: number;
  file: File;
  table: Table;
}

export function MapPage() {
  const { data: found, problem: unlisted } = useFresh<Choices>(choices, undefined);
  const [asked] = useParam("job");
  const [crs, setCrs] = useParam("crs");
  const [problem, setProblem] = useState<Problem>();
  const { dropped, open, forget } = useDropped(setProblem);
  const close = () => {
    forget();
    setParams(NOTHING);
  };
  const { over, handlers } = useDragging(open);
  const job = dropped ? undefined : (found?.jobs.find((one) => one.name === asked) ?? (asked ? undefined : found?.jobs[0]));
  const layer = useLayer(job?.layers);
  const loaded = useTable(job?.name, layer, crs ?? "");
  const table = dropped?.table ?? loaded.table;
  const trouble = problem ?? loaded.problem ?? unlisted;
  return (
    <div className="map-page page" {...handlers}>
      <section className="bar" aria-label="What is shown">
        <h1 className="sr">Map</h1>
        <JobChoice found={found} job={job?.name} file={dropped?.file.name} onChoose={forget} />
        {job && layer && <LayerChoice layers={job.layers} layer={layer} />}
        <RoadsChoice names={found?.roads ?? []} />
        {table && (table.world === "plane" || crs) && <SystemChoice crs={crs ?? ""} onCrs={(text) => (dropped ? open(dropped.file, text) : setCrs(text || undefined))} />}
        <FileChoice onOpen={open} />
        {dropped && <button onClick={close}>Close {dropped.file.name}</button>}
        {table && <Extent table={table} live={!dropped} />}
      </section>
      {trouble && <ErrorNote problem={trouble} {...(problem ? { onClose: () => setProblem(undefined) } : {})} />}
      {asked && found && !job && !dropped && <ErrorNote problem={{ message: `No job ${asked} has positions here.`, hint: SHOWABLE }} />}
      {found && !found.jobs.length && !dropped && <p className="note">No job here has positions yet. {SHOWABLE} Or drop a file on this page: GPX, GeoJSON, CSV or Parquet.</p>}
      <Shown
        key={dropped ? `file ${dropped.number}` : `${job?.name} ${layer?.name} ${crs}`}
        name={dropped?.file.name ?? `${job?.name ?? "map"}-${layer?.name ?? ""}`}
        job={job?.name}
        table={table}
        follows={!dropped && layer?.kind !== "trips"}
        found={found}
        onProblem={setProblem}
      />
      {over && <p className="dropping">Drop a GPX, GeoJSON, CSV or Parquet file to see it. It is read and forgotten.</p>}
    </div>
  );
}

type Open = (file: File | undefined, crs?: string) => void;

/** A file that is shown in place of a job; of several, the one that was opened last. */
function useDropped(onProblem: (problem: Problem | undefined) => void) {
  const [dropped, setDropped] = useState<Dropped>();
  const newest = useRef(0);
  const open: Open = (file, crs = "") => {
    if (!file) return;
    onProblem(undefined);
    const number = ++newest.current;
    drop(file, crs).then(
      (table) => {
        if (number !== newest.current) return;
        setParams({ ...NOTHING, crs: crs || undefined });
        setDropped({ number, file, table });
      },
      (problem: Problem) => number === newest.current && onProblem(problem),
    );
  };
  const forget = () => {
    newest.current++;
    onProblem(undefined);
    setDropped(undefined);
  };
  return { dropped, open, forget };
}

/** Whether something is held over the page, and what happens to it. */
function useDragging(open: Open) {
  const [over, setOver] = useState(false);
  const handlers = {
    onDragOver: (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    },
    // from one part of the page to another it is still over the page
    onDragLeave: (event: DragEvent) => event.currentTarget.contains(event.relatedTarget as Node | null) || setOver(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      open(event.dataTransfer.files[0]);
    },
  };
  return { over, handlers };
}

/** The table in the address, or the first that is not of rejects. */
function useLayer(layers: Layer[] | undefined): Layer | undefined {
  const [asked] = useParam("layer");
  return useMemo(() => layers?.find((one) => one.name === asked) ?? layers?.find((one) => !one.name.endsWith("rejects")) ?? layers?.[0], [layers, asked]);
}

/** The positions of a job, and what it has committed since; they stay while the console cannot be reached. */
function useTable(job: string | undefined, layer: Layer | undefined, crs: string): { table: Table | undefined; problem: Problem | undefined } {
  const [known, setKnown] = useState<{ of: string; table: Table | undefined; problem: Problem | undefined }>();
  const of = job && layer ? `${job} ${layer.name} ${crs}` : "";
  useEffect(() => {
    if (!job || !layer) return;
    let [stopped, quiet, timer] = [false, 0, 0];
    let table: Table | undefined;
    const load = async () => {
      if (!document.hidden) {
        let problem: Problem | undefined;
        try {
          const next = await positions(job, layer.name, crs, table && layer.kind !== "cuboid" ? table.batch : -1);
          const fresh = !table || (layer.kind === "cuboid" ? next.batch > table.batch : next.t.length > 0);
          quiet = fresh ? 0 : quiet + 1;
          if (fresh) table = table && layer.kind !== "cuboid" ? merge(table, next) : next;
        } catch (error) {
          problem = error as Problem;
          quiet = 9;
        }
        if (stopped) return;
        const now = { of, table, problem };
        setKnown((before) => (before?.table === now.table && before?.problem === now.problem ? before : now));
      }
      timer = window.setTimeout(() => void load(), quiet < 5 ? SOON : LATER);
    };
    void load();
    return () => {
      stopped = true;
      window.clearTimeout(timer);
    };
  }, [job, layer, crs, of]);
  return known?.of === of ? known : { table: undefined, problem: undefined };
}

function JobChoice({ found, job, file, onChoose }: { found: Choices | undefined; job: string | undefined; file: string | undefined; onChoose: () => void }) {
  return (
    <label>
      Job
      <select
        value={job ?? ""}
        onChange={(event) => {
          onChoose();
          setParams({ ...NOTHING, job: event.target.value }, true);
        }}
      >
        {job === undefined && <option value="">{file ?? "none"}</option>}
        {found?.jobs.map((one) => (
          <option key={one.name}>{one.name}</option>
        ))}
      </select>
    </label>
  );
}

function LayerChoice({ layers, layer }: { layers: readonly Layer[]; layer: Layer }) {
  return (
    <label>
      Table
      <select value={layer.name} onChange={(event) => setParams({ ...NOTHING, layer: event.target.value }, true)}>
        {layers.map((one) => (
          <option key={`${one.kind}.${one.name}`}>{one.name}</option>
        ))}
      </select>
    </label>
  );
}

function FileChoice({ onOpen }: { onOpen: Open }) {
  return (
    <label className="button open">
      Open a file
      <input
        type="file"
        className="sr"
        accept=".gpx,.geojson,.json,.csv,.parquet"
        onChange={(event) => {
          onOpen(event.target.files?.[0]);
          // the same file may be chosen again once it has changed
          event.target.value = "";
        }}
      />
    </label>
  );
}

function RoadsChoice({ names }: { names: readonly string[] }) {
  const [chosen, choose] = useParam("roads");
  if (!names.length) return null;
  return (
    <label>
      Streets
      <select value={chosen ?? ""} onChange={(event) => choose(event.target.value || undefined)}>
        <option value="">those of the job</option>
        <option value={NONE}>none</option>
        {names.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

function SystemChoice({ crs, onCrs }: { crs: string; onCrs: (crs: string) => void }) {
  const [text, setText] = useState(crs);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onCrs(text.trim().toUpperCase());
      }}
    >
      <label title="The reference system of x and y, so that they can be put on streets">
        System
        <input value={text} placeholder="EPSG:25833" pattern="(?:[Ee][Pp][Ss][Gg]:[0-9]{4,6})?" size={11} onChange={(event) => setText(event.target.value)} />
      </label>
    </form>
  );
}

function Extent({ table, live }: { table: Table; live: boolean }) {
  const many = table.owners.length;
  return (
    <span className="dim">
      {table.isCut && "the newest "}
      {count(table.t.length)} positions{many > 0 && ` of ${count(many)} ${many === 1 ? "id" : "ids"}`}
      {live && table.batch >= 0 && `, as of batch ${count(table.batch)}`}
      {table.unplaced > 0 && `, ${count(table.unplaced)} without a place`}
    </span>
  );
}
