// The panel of a source or a table: what it reads, its columns, and the fields behind them in a feed.
import { firstInput, type InputKind, kindOfInput, PREFIX } from "./input";
import { type Props, Row, Text } from "./inspector";
import * as m from "./model";
import { columns as columnsOf } from "./server";

const TYPES = ["bigint", "double", "string", "boolean"];
const KINDS: [InputKind, string][] = [
  ["recording", "a recording"],
  ["topic", "a Kafka topic"],
  ["socket", "a TCP socket"],
  ["folder", "a folder, as it fills"],
];

export function SourceFields(props: Props & { id: string; columns: m.Columns }) {
  const { id, columns, inputs, fields, contents, onEdit, onField, onProblem } = props;
  const input = inputs[id] ?? "";
  const entries = Object.entries(columns);
  const isFeed = kindOfInput(input, contents?.folders ?? []) !== "recording";
  const set = (fresh: [string, string][], field: string) => onEdit((now) => m.setColumns(now, id, Object.fromEntries(fresh)), `${id}.${field}`);
  const change = (place: number, pair: [string, string], field: string) => set(entries.map((one, k) => (k === place ? pair : one)), field);
  return (
    <>
      <InputFields {...props} />
      {contents?.recordings.length === 0 && <p className="dim">Add CSV, JSON lines or Parquet files, or a simulated run, to the workspace.</p>}
      {entries.map(([name, type], i) => (
        <div className="pair" key={i}>
          <Text label={`Column ${i + 1}`} mono value={name} wrong={!m.isName(name)} onChange={(fresh) => fresh in columns || change(i, [fresh, type], String(i))} />
          {isFeed && <Text label={`Field of ${name}`} mono value={fields[id]?.[name] ?? ""} placeholder={name} onChange={(field) => onField(id, name, field)} />}
          <select aria-label={`Type of ${name}`} value={type} onChange={(event) => change(i, [name, event.target.value], String(i))}>
            {TYPES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
          <button className="plain" aria-label={`Remove ${name}`} onClick={() => set(entries.filter((_, k) => k !== i), "-")}>
            ×
          </button>
        </div>
      ))}
      {isFeed && entries.length > 0 && <p className="dim">The second field is the name in the feed, if it differs; a time may have a unit, as in ts:ms.</p>}
      <div className="buttons">
        <button onClick={() => set([...entries, [`column_${entries.length + 1}`, "bigint"]], "+")}>Add a column</button>
        {input && !isFeed && <button onClick={() => columnsOf(input).then((found) => onEdit((now) => m.setColumns(now, id, found.columns)), onProblem)}>Use the recording’s columns</button>}
      </div>
    </>
  );
}

/** What it reads: a recording, or, of a source, a feed. */
function InputFields({ id, columns, inputs, contents, onInput, onEdit, onProblem }: Props & { id: string; columns: m.Columns }) {
  const input = inputs[id] ?? "";
  const folders = contents?.folders ?? [];
  const kind = kindOfInput(input, folders);
  const isSource = id.startsWith("sources.");
  const take = (recording: string) => {
    onInput(id, recording);
    if (recording && Object.keys(columns).length === 0) columnsOf(recording).then((found) => onEdit((now) => m.setColumns(now, id, found.columns)), onProblem);
  };
  return (
    <>
      {isSource && (
        <Row label="Reads">
          <select aria-label="Reads" value={kind} onChange={(event) => onInput(id, event.target.value === "recording" ? "" : firstInput(event.target.value as m.Piece, folders))}>
            {KINDS.filter(([one]) => one !== "folder" || folders.length > 0).map(([one, title]) => (
              <option key={one} value={one}>
                {title}
              </option>
            ))}
          </select>
        </Row>
      )}
      {kind === "recording" && (
        <Row label="Recording">
          <Choice label="Recording" value={input} choices={contents?.recordings ?? []} onChange={take} />
        </Row>
      )}
      {kind === "folder" && (
        <Row label="Folder">
          <Choice label="Folder" value={input} choices={folders} onChange={(folder) => onInput(id, folder)} />
        </Row>
      )}
      {(kind === "topic" || kind === "socket") && (
        <Row label={kind === "topic" ? "Topic" : "Address"}>
          <Text label={kind === "topic" ? "Topic" : "Address"} mono value={input.slice(PREFIX[kind].length)} placeholder={kind === "topic" ? "HOST:PORT/TOPIC" : "HOST:PORT"} onChange={(text) => onInput(id, PREFIX[kind] + text.trim())} />
        </Row>
      )}
    </>
  );
}

function Choice({ label, value, choices, onChange }: { label: string; value: string; choices: readonly string[]; onChange: (value: string) => void }) {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">choose one to run</option>
      {choices.map((one) => (
        <option key={one} value={one}>
          {one}
        </option>
      ))}
    </select>
  );
}
