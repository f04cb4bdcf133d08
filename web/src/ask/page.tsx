// The Query page: SQL over what a job has committed; the result as a table, a chart or a map. The address has the query.
import "./ask.css";
import { type FormEvent, useEffect, useMemo, useRef, useState } from "react";
import { Problem } from "../shared/api";
import { Chart, toCsv } from "../shared/chart";
import { count, duration } from "../shared/format";
import { useFresh } from "../shared/fresh";
import { Empty, ErrorNote } from "../shared/notes";
import { param, setParams, useParam } from "../shared/router";
import { Rows, text } from "../shared/rows";
import { saveFile } from "../shared/saving";
import { SERIES } from "../shared/scales";
import { cancel, charted, completions, drawn, example, query, remember, type Result, saved, type Table } from "./model";
import { ResultMap } from "./map";

type Shape = "table" | "chart" | "map";
const SHAPES: readonly Shape[] = ["table", "chart", "map"];

export function AskPage() {
  const { data: jobs, problem: unlisted } = useFresh<{ name: string }[]>("/api/jobs", undefined);
  const [asked] = useParam("job");
  const job = asked ?? jobs?.[0]?.name ?? "";
  const { data: tables, problem: unknown } = useFresh<Table[]>(job ? `/api/ask/tables?${new URLSearchParams({ job })}` : undefined, undefined);
  const [sql, setSql] = useState(() => param("sql") ?? "");
  const [result, setResult] = useState<Result>();
  const [problem, setProblem] = useState<Problem>();
  const [running, setRunning] = useState<string>();
  const [past, setPast] = useState(saved);
  const run = async (wanted: string) => {
    // randomUUID exists on secure origins only
    const id = `q-${Math.random().toString(36).slice(2)}`;
    setRunning(id);
    setProblem(undefined);
    try {
      setResult(await query(job, wanted, id));
      setParams({ job, sql: wanted }, true);
      setPast(remember({ job, sql: wanted }));
    } catch (error) {
      if (error instanceof Problem) setProblem(error);
    } finally {
      setRunning(undefined);
    }
  };
  const linked = useRef(param("sql"));
  useEffect(() => {
    // a link shows its result at once: queries only read
    if (!linked.current || !job) return;
    const wanted = linked.current;
    linked.current = undefined;
    void run(wanted);
  }, [job]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (sql.trim() && !running) void run(sql.trim());
  };
  if (jobs?.length === 0) {
    return (
      <div className="centre">
        <Empty title="No jobs to query yet">
          <p>Start one on the Jobs page, and query what it commits here.</p>
        </Empty>
      </div>
    );
  }
  const trouble = problem ?? unlisted ?? unknown;
  return (
    <div className="ask page">
      <form className="bar" aria-label="Query" onSubmit={submit}>
        <h1>Query</h1>
        <label>
          Job
          <select
            value={job}
            onChange={(event) => {
              setParams({ job: event.target.value, sql: undefined }, true);
              setResult(undefined);
            }}
          >
            {jobs?.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </label>
        <label>
          Recent
          <select
            value=""
            disabled={!past.length}
            onChange={(event) => {
              const one = past[Number(event.target.value)];
              if (!one) return;
              setParams({ job: one.job });
              setSql(one.sql);
            }}
          >
            <option value="">{past.length ? "a query" : "none yet"}</option>
            {past.map((one, k) => (
              <option key={k} value={k}>
                {one.job}: {one.sql.replace(/\s+/g, " ").slice(0, 60)}
              </option>
            ))}
          </select>
        </label>
        <span className="grow" />
        {running ? (
          <button type="button" onClick={() => void cancel(running).catch(() => undefined)}>
            Cancel
          </button>
        ) : (
          <button className="primary" disabled={!sql.trim() || !job} title="Ctrl+Enter">
            Run
          </button>
        )}
      </form>
      <div className="columns">
        <Tables tables={tables} onExample={setSql} />
        <div className="answer">
          <Editor sql={sql} tables={tables ?? []} onChange={setSql} onRun={() => sql.trim() && !running && void run(sql.trim())} />
          {trouble && <ErrorNote problem={trouble} {...(problem ? { onClose: () => setProblem(undefined) } : {})} />}
          {running && (
            <p className="note" role="status">
              Running… The first query starts Spark, which takes a while.
            </p>
          )}
          {result && <Shown result={result} />}
        </div>
      </div>
    </div>
  );
}

/** What can be queried; a click writes a query to begin with. */
function Tables({ tables, onExample }: { tables: Table[] | undefined; onExample: (sql: string) => void }) {
  return (
    <section className="card tables" aria-label="Tables">
      {tables?.length === 0 && <p className="note">This job has committed nothing yet.</p>}
      {tables?.map((table) => (
        <div key={`${table.kind}.${table.name}`}>
          <button className="plain" title="Insert a query of this table" onClick={() => onExample(example(table))}>
            <strong>{table.name}</strong> {table.kind === "cuboid" && <span className="dim">cuboid</span>}
          </button>
          <span className="dim mono">{table.columns.join(", ")}</span>
        </div>
      ))}
      <p className="dim">
        Queries are read-only and see the last commit. They are SQL, with operators on moving points such as <code>travelled(Trip)</code>, and on cuboids <code>speed[0]</code>.
      </p>
    </section>
  );
}

const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "count(*)", "avg", "sum", "max", "min", "travelled"];

/** A text area that completes names: arrows choose, Tab takes, Escape closes. */
function Editor({ sql, tables, onChange, onRun }: { sql: string; tables: Table[]; onChange: (sql: string) => void; onRun: () => void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  const [found, setFound] = useState<string[]>([]);
  const [at, setAt] = useState(0);
  const names = useMemo(() => [...new Set([...tables.flatMap((table) => [table.name, ...table.columns]), ...WORDS])], [tables]);
  const take = (name: string) => {
    const cursor = area.current?.selectionStart ?? sql.length;
    onChange(sql.slice(0, cursor).replace(/[A-Za-z_]\w*$/, "") + name + sql.slice(cursor));
    setFound([]);
    area.current?.focus();
  };
  return (
    <div className="editor">
      <textarea
        ref={area}
        aria-label="SQL"
        aria-autocomplete="list"
        spellCheck={false}
        value={sql}
        placeholder="SELECT ... FROM ... (choose a table for an example)"
        onChange={(event) => {
          onChange(event.target.value);
          setFound(completions(event.target.value.slice(0, event.target.selectionStart), names));
          setAt(0);
        }}
        onBlur={() => window.setTimeout(() => setFound([]), 150)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onRun();
          else if (!found.length) return;
          else if (event.key === "Tab") take(found[at] ?? "");
          else if (event.key === "ArrowDown") setAt((at + 1) % found.length);
          else if (event.key === "ArrowUp") setAt((at + found.length - 1) % found.length);
          else if (event.key === "Escape") setFound([]);
          else return;
          event.preventDefault();
        }}
      />
      {found.length > 0 && (
        <ul className="completions" role="listbox" aria-label="Completions">
          {found.map((name, k) => (
            <li key={name} role="option" aria-selected={k === at} onMouseDown={() => take(name)}>
              {name}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Shown({ result }: { result: Result }) {
  const [asked, setShape] = useParam("as");
  const chart = useMemo(() => charted(result), [result]);
  const map = useMemo(() => drawn(result), [result]);
  const possible: Record<Shape, boolean> = { table: true, chart: chart !== undefined, map: map !== undefined };
  const shape = SHAPES.find((one) => one === asked && possible[one]) ?? "table";
  const csv = () => {
    const columns = result.columns.slice(1).map((label, k) => ({ label, colour: "", k: k + 1 }));
    const body = toCsv(result.rows.map((row) => row[0] as number), columns, columns.map(({ k }) => result.rows.map((row) => row[k] as number | null)));
    saveFile("result.csv", body.replace(/^x/, result.columns[0] ?? "x"), "text/csv");
  };
  return (
    <section className="card result" aria-label="Result">
      <header>
        <div className="segmented" role="radiogroup" aria-label="Show as">
          {SHAPES.map((one) => (
            <button key={one} role="radio" aria-checked={one === shape} disabled={!possible[one]} onClick={() => setShape(one === "table" ? undefined : one)}>
              {one}
            </button>
          ))}
        </div>
        <span className="dim" role="status">
          {count(result.rows.length)} {result.rows.length === 1 ? "row" : "rows"}
          {result.is_cut ? ", and more" : ""} in {duration(result.seconds)}, as of batch {count(result.batch)}
        </span>
        <span className="grow" />
        <button onClick={csv}>CSV</button>
      </header>
      {shape === "table" && (
        <div className="rows" tabIndex={0} role="region" aria-label="Rows of the result">
          <Rows columns={result.columns} rows={result.rows.map((row) => row.map(text))} />
        </div>
      )}
      {shape === "chart" && chart && (
        <Chart title={`over ${chart.label}`} unit="" height={320} x={chart.x} number lines={chart.labels.map((label, k) => ({ label, colour: SERIES[k] ?? SERIES[0] }))} values={chart.values} />
      )}
      {shape === "map" && map && <ResultMap drawing={map} />}
    </section>
  );
}
