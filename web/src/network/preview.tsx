// The tuples of a source before anything runs: the first of a recording or a folder, the newest of a topic.
import { useEffect, useState } from "react";
import type { Problem } from "../shared/api";
import { Rows, text } from "../shared/rows";
import { isComplete } from "./input";
import * as m from "./model";
import { preview, type Preview } from "./server";

interface Props {
  id: string;
  input: string;
  columns: m.Columns;
  readOnly: boolean;
  onEdit: (edit: (doc: m.Doc) => m.Doc) => void;
}

export function PreviewDrawer({ id, input, columns, readOnly, onEdit }: Props) {
  const [found, setFound] = useState<Preview>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    setFound(undefined);
    setProblem(undefined);
    if (!isComplete(input)) return;
    let wanted = true;
    // an address is typed letter by letter
    const soon = window.setTimeout(() => preview(input).then((one) => wanted && setFound(one), (error: Problem) => wanted && setProblem(error)), 500);
    return () => {
      wanted = false;
      window.clearTimeout(soon);
    };
  }, [input]);
  const usable = Object.fromEntries(Object.entries(found?.types ?? {}).filter(([name]) => m.isName(name)));
  const differ = found && Object.entries(columns).filter(([name, type]) => found.types[name] !== type);
  return (
    <section className="drawer" aria-label="Preview">
      <header className="bar">
        <span>
          Preview of <strong>{input}</strong>
        </span>
        {differ && differ.length > 0 && <span className="dim">differs from the columns: {differ.map(([name]) => name).join(", ")}</span>}
        <span className="grow" />
        {found && !readOnly && Object.keys(usable).length > 0 && <button onClick={() => onEdit((now) => m.setColumns(now, id, usable))}>Use these columns</button>}
      </header>
      <div className="tuples" tabIndex={0} aria-label="Tuples of the source">
        {problem && <p className="note">{[problem.message, problem.hint].filter(Boolean).join(" ")}</p>}
        {!problem && !found && <p className="note">{isComplete(input) ? "Reading…" : "Give HOST:PORT/TOPIC to see its newest messages."}</p>}
        {found && found.rows.length === 0 && <p className="note">No tuples yet.</p>}
        {found && found.rows.length > 0 && <Rows columns={found.columns.map((name) => `${name} ${found.types[name] ?? ""}`)} rows={found.rows.map((row) => row.map(text))} />}
      </div>
    </section>
  );
}
