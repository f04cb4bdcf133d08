// A new job: a form, and the same as YAML. Either can be edited; the server checks both.
import { type FormEvent, useEffect, useId, useState } from "react";
import { Problem } from "../shared/api";
import { ErrorNote } from "../shared/notes";
import { open as openNetwork } from "../network/server";
import { choices as askChoices, type Choices, EMPTY, type Kind, readYaml, type Specification, splitColumns, start, toYaml } from "./model";

const KINDS: Record<Kind, string> = {
  toll: "Toll vehicles: notifications, alerts, balances and, if you like, trips.",
  archive: "Turn position reports into trips.",
  network: "Run a network of boxes, such as one drawn on the Network page.",
  cuboid: "Keep state for each key, and evaluate continuous queries.",
};
const CUBOID = "CREATE CUBOID car (vid INT KEY, speed AST(10));\nCREATE QUERY fast AS SELECT vid, speed[0] FROM car WHERE speed[0] > 60\n";

export function NewJob({ onClose, onStarted }: { onClose: () => void; onStarted: (name: string) => void }) {
  const [found, setFound] = useState<Choices>();
  const [wanted, setWanted] = useState<Specification>(EMPTY);
  const [yaml, setYaml] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const change = (part: Partial<Specification>) => {
    setYaml(undefined);
    setWanted((before) => ({ ...before, ...part }));
  };
  useEffect(() => {
    askChoices().then(setFound, setProblem);
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const final = yaml === undefined ? wanted : await readYaml(yaml);
      onStarted((await start(final)).name);
    } catch (error) {
      if (error instanceof Problem) setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    // what is written as YAML needs nothing of the form
    <form className="job new" aria-label="New job" noValidate={yaml !== undefined} onSubmit={(event) => void submit(event)}>
      <header className="bar">
        <h2>New job</h2>
        <span className="grow" />
        <button type="button" className="plain" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      {problem && <ErrorNote problem={problem} onClose={() => setProblem(undefined)} />}
      {found && !found.folder && <ErrorNote problem={{ message: "There is no folder for new jobs.", hint: "Start the console with one: slipstream console FOLDER" }} />}
      <div className="halves">
        <div className="card form">
          <div className="segmented" role="radiogroup" aria-label="Kind of job">
            {(Object.keys(KINDS) as Kind[]).map((kind) => (
              <button key={kind} type="button" role="radio" aria-checked={kind === wanted.job} onClick={() => change({ job: kind, inputs: {}, definitions: kind === "cuboid" ? CUBOID : "" })}>
                {kind}
              </button>
            ))}
          </div>
          <p className="dim">{KINDS[wanted.job]}</p>
          {found && <Source wanted={wanted} found={found} change={change} onProblem={setProblem} />}
          <Options wanted={wanted} change={change} />
          <label>
            Folder
            <input value={wanted.out} placeholder="a new folder" pattern="[A-Za-z0-9][A-Za-z0-9_.\-]*" maxLength={100} onChange={(event) => change({ out: event.target.value })} />
          </label>
        </div>
        <div className="card form">
          <label className="tall">
            The same as YAML (edit either)
            <textarea spellCheck={false} value={yaml ?? toYaml(wanted)} onChange={(event) => setYaml(event.target.value)} />
          </label>
          {yaml !== undefined && (
            <button type="button" onClick={() => readYaml(yaml).then((read) => (setWanted(read), setYaml(undefined), setProblem(undefined)), setProblem)}>
              Apply to the form
            </button>
          )}
        </div>
      </div>
      <div className="buttons">
        <button className="primary" disabled={busy || !found?.folder}>
          Start
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </form>
  );
}

interface PartProps {
  wanted: Specification;
  change: (part: Partial<Specification>) => void;
}

/** What the job reads: one input, or one for each source of a network. */
function Source({ wanted, found, change, onProblem }: PartProps & { found: Choices; onProblem: (problem: Problem) => void }) {
  const [sources, setSources] = useState<string[]>([]);
  const list = useId();
  const network = wanted.job === "network" ? wanted.network : "";
  useEffect(() => {
    if (!network) return setSources([]);
    openNetwork(network).then((opened) => setSources(Object.keys((opened.document as { sources?: object }).sources ?? {})), onProblem);
  }, [network, onProblem]);
  const names = wanted.job === "network" ? sources : ["input"];
  return (
    <>
      {wanted.job === "network" && (
        <label>
          Network
          <select value={wanted.network} required onChange={(event) => change({ network: event.target.value, inputs: {} })}>
            <option value="">choose a file</option>
            {found.networks.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      {names.map((name) => (
        <label key={name}>
          {wanted.job === "network" ? `Source ${name}` : "Input"}
          <input
            list={list}
            required
            value={wanted.inputs[name] ?? ""}
            placeholder="a run, a file, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT"
            onChange={(event) => change({ inputs: { ...wanted.inputs, [name]: event.target.value } })}
          />
        </label>
      ))}
      <datalist id={list}>
        {found.inputs.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <label>
        Columns
        <input value={wanted.columns.join(", ")} placeholder="as they are, or id=vin, time=ts:ms" onChange={(event) => change({ columns: splitColumns(event.target.value) })} />
      </label>
      <Check label="Follow: keep reading as the input grows" value={wanted.follow} onChange={(follow) => change({ follow })} />
    </>
  );
}

function Options({ wanted, change }: PartProps) {
  if (wanted.job === "network") {
    return (
      <label>
        Tuples per second
        <input type="number" min={0} step="any" value={wanted.rate ?? ""} placeholder="all at once" onChange={(event) => change({ rate: Number(event.target.value) || null })} />
      </label>
    );
  }
  if (wanted.job === "cuboid") {
    return (
      <label className="tall">
        Definitions
        <textarea spellCheck={false} required value={wanted.definitions} onChange={(event) => change({ definitions: event.target.value })} />
      </label>
    );
  }
  return (
    <>
      <label>
        Speed of a run
        <select value={wanted.speed} onChange={(event) => change({ speed: Number(event.target.value) })}>
          {[0, 1, 2, 5, 10, 60].map((speed) => (
            <option key={speed} value={speed}>
              {speed === 0 ? "as fast as possible" : speed === 1 ? "real time" : `${speed} × real time`}
            </option>
          ))}
        </select>
      </label>
      {wanted.job === "toll" && (
        <>
          <label>
            Rules
            <select value={wanted.rules} onChange={(event) => change({ rules: event.target.value as "2004" | "2003" })}>
              <option value="2004">Linear Road, 2004</option>
              <option value="2003">Linear Road, 2003</option>
            </select>
          </label>
          <Check label="Also write trips" value={wanted.archive} onChange={(archive) => change({ archive })} />
          <Check label="Publish state for queries" value={wanted.snapshot} onChange={(snapshot) => change({ snapshot })} />
        </>
      )}
    </>
  );
}

function Check({ label, value, onChange }: { label: string; value: boolean; onChange: (value: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={value} onChange={(event) => onChange(event.target.checked)} />
      {label}
    </label>
  );
}
