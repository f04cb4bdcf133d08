// The panel for the selection: every field of the file, and keyboard access to everything the mouse can do.
import { type ReactNode, useEffect, useState } from "react";
import type { Problem } from "../shared/api";
import { ErrorNote } from "../shared/notes";
import { QosGraph } from "./graph";
import * as m from "./model";
import type { Fields, Inputs } from "./input";
import { BoxLoad } from "./box-load";
import { type Complaint, type WorkspaceContents, shed, type Verdict, type RunState } from "./server";
import { SourceFields } from "./source";
import { describeStage, stageOf } from "./stages";

type Edit = (edit: (doc: m.Doc) => m.Doc, field?: string) => void;

export interface Props {
  doc: m.Doc;
  id: string | undefined;
  verdict: Verdict | undefined;
  run: RunState | undefined;
  contents: WorkspaceContents | undefined;
  inputs: Inputs;
  fields: Fields;
  /** whether nothing can be changed, as on a phone */
  readOnly: boolean;
  onInput: (place: string, input: string) => void;
  onField: (place: string, column: string, field: string) => void;
  onEdit: Edit;
  onSelect: (id: string | undefined) => void;
  onRename: (id: string, name: string) => void;
  onProblem: (problem: Problem) => void;
}

export function Inspector(props: Props) {
  const { doc, id, verdict, onEdit, onSelect } = props;
  const arc = id?.startsWith("arc:") ? id.slice(4).split(/[>#]/) : undefined;
  const [part, name] = m.split(id ?? "");
  if (arc) return <ArcPanel {...props} arc={arc[0] ?? ""} target={arc[1] ?? ""} side={Number(arc[2])} />;
  if (!id || !doc[part]?.[name]) return <NetworkPanel {...props} />;
  const complaints = verdict?.complaints.filter((one) => one.place === id) ?? [];
  const box = part === "boxes" ? doc.boxes[name] : undefined;
  const end = part === "points" ? "point" : doc.outputs[name]?.archive ? "archive" : "output";
  const kind = box ? m.kindOf(box) : part === "sources" ? "source" : part === "tables" ? "table" : end;
  const where = describeStage(verdict, stageOf(doc, verdict?.stages ?? []).get(id));
  return (
    <section className="inspector" aria-label={`Properties of ${name}`}>
      <header>
        <h2>{m.TITLES[kind][0]}</h2>
        <span className="dim">{m.TITLES[kind][1]}</span>
      </header>
      {where && <p className="dim">{where}</p>}
      {box && props.run?.boxes[name] && <BoxLoad name={name} run={props.run} />}
      <fieldset className="all" disabled={props.readOnly}>
        <NameField doc={doc} id={id} onRename={props.onRename} />
        <Complaints all={complaints} />
        {box && <BoxFields {...props} id={id} name={name} box={box} complaints={complaints} />}
        {(part === "sources" || part === "tables") && <SourceFields {...props} id={id} columns={doc[part]?.[name] ?? {}} />}
        {part === "outputs" && <OutputFields {...props} id={id} output={doc.outputs[name] ?? { from: "" }} />}
        {part === "points" && <PointFields {...props} id={id} point={doc.points?.[name] ?? { from: "" }} />}
        <button
          className="remove"
          onClick={() => {
            onEdit((now) => m.remove(now, id));
            onSelect(undefined);
          }}
        >
          Remove
        </button>
      </fieldset>
    </section>
  );
}

function Complaints({ all }: { all: Complaint[] }) {
  return all.map((one) => <ErrorNote key={one.message} problem={one} />);
}

export function Row({ label, children }: { label: string; children: ReactNode }) {
  return (
    <label className="row">
      <span>{label}</span>
      {children}
    </label>
  );
}

interface TextProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
  wrong?: boolean;
  mono?: boolean;
  list?: string;
  placeholder?: string;
}

export function Text({ label, value, onChange, wrong, mono, list, placeholder }: TextProps) {
  return (
    <input
      aria-label={label}
      className={mono ? "mono" : ""}
      aria-invalid={wrong || undefined}
      value={value}
      list={list}
      placeholder={placeholder}
      spellCheck={false}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

function Numeric({ label, value, onChange, hint }: { label: string; value: number | undefined; onChange: (n: number | undefined) => void; hint?: string }) {
  return (
    <Row label={label}>
      <input
        type="number"
        step="any"
        aria-label={label}
        value={value ?? ""}
        placeholder={hint}
        onChange={(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))}
      />
    </Row>
  );
}

/** A name changes when editing ends: a partial name would disconnect arcs. */
function NameField({ doc, id, onRename }: Pick<Props, "doc" | "onRename"> & { id: string }) {
  const [part, name] = m.split(id);
  const [text, setText] = useState(name);
  useEffect(() => setText(name), [name]);
  const ends = part === "outputs" || part === "points";
  const taken = ends ? { ...doc.outputs, ...doc.points } : { ...doc.sources, ...doc.tables, ...doc.boxes };
  const wrong = text !== name && (text in taken || !m.isName(text));
  const done = () => {
    if (text === name || wrong) return setText(name);
    onRename(id, text);
  };
  return (
    <Row label="Name">
      <input
        aria-label="Name"
        value={text}
        aria-invalid={wrong || undefined}
        title={wrong ? "Use letters, digits and underscores; names must be unique." : undefined}
        onChange={(event) => setText(event.target.value)}
        onBlur={done}
        onKeyDown={(event) => event.key === "Enter" && done()}
      />
    </Row>
  );
}

const shapesOf = (contents: WorkspaceContents | undefined): readonly m.Shape[] => contents?.operators ?? [];

function Inputs({ doc, id, contents, onEdit }: Pick<Props, "doc" | "contents" | "onEdit"> & { id: string }) {
  const shapes = shapesOf(contents);
  const [part, name] = m.split(id);
  const box = part === "boxes" ? doc.boxes[name] : undefined;
  const inputs = m.inputsOf(doc, id);
  const shown = box?.union ? [...inputs, ""] : inputs;
  const labels = box?.union ? shown.map((_, i) => `Input ${i + 1}`) : m.sideNames(box);
  return shown.map((arc, side) => (
    <Row key={side} label={labels[side] ?? "Input"}>
      <select
        aria-label={labels[side] ?? "Input"}
        value={arc}
        onChange={(event) => {
          const wanted = event.target.value;
          onEdit((now) => (wanted ? m.connect(arc && box?.union ? m.disconnect(now, id, side) : now, wanted, id, side) : m.disconnect(now, id, side)));
        }}
      >
        <option value="">not connected</option>
        {m.arcsOf(doc, shapes).filter((one) => !m.loops(doc, m.originOf(one), id)).map((one) => (
          <option key={one} value={one}>
            {m.arcTitle(doc, one, shapes)}
          </option>
        ))}
      </select>
    </Row>
  ));
}

function BoxFields(props: Props & { id: string; name: string; box: m.Box; complaints: Complaint[] }) {
  const { doc, id, name, box, verdict, complaints, contents, onEdit } = props;
  const set = (fields: Partial<Record<keyof m.Box, unknown>>, field: string) => onEdit((now) => m.change(now, id, fields), `${id}.${field}`);
  const wrong = (text: string) => complaints.some((one) => one.expression === text || (one.column !== "" && new RegExp(`\\b${one.column}\\b`).test(text)));
  const inputs = m.inputsOf(doc, id);
  const known = inputs.map((arc) => Object.keys(verdict?.schemas[arc] ?? {}));
  const order = (field: "order" | "left" | "right", side: number, label: string) => (
    <OrderFields key={field} label={label} id={`${id}-${field}`} order={box[field] ?? { on: "" }} known={known[side] ?? []} wrong={complaints} onChange={(fresh) => set({ [field]: fresh }, field)} />
  );
  const lookup = box.join !== undefined && inputs.some((arc) => arc !== "" && arc in (doc.tables ?? {}));
  useEffect(() => {
    // a stored table has no window
    if (lookup && (box.size !== undefined || box.left || box.right)) onEdit((now) => m.change(now, id, { size: undefined, left: undefined, right: undefined }));
  }, [lookup, box, id, onEdit]);
  return (
    <>
      <Inputs doc={doc} id={id} contents={contents} onEdit={onEdit} />
      {known.some((columns) => columns.length > 0) && <p className="known mono">{inputs.map((arc, i) => (known[i]?.length ? `${inputs.length > 1 ? `${(m.sideNames(box)[i] ?? `${i + 1}`).replace(/ input$/, "").toLowerCase()}: ` : ""}${Object.entries(verdict?.schemas[arc] ?? {}).map(([column, type]) => `${column} ${type}`).join(", ")}` : "")).filter(Boolean).join("\n")}</p>}
      {box.filter?.map((text, i) => (
        <div className="pair" key={i}>
          <Text label={`Predicate ${i + 1}`} mono value={text} wrong={wrong(text)} placeholder="speed > 50" onChange={(fresh) => set({ filter: box.filter?.map((one, k) => (k === i ? fresh : one)) }, `filter${i}`)} />
          {(box.filter?.length ?? 0) > 1 && (
            <button className="plain" aria-label={`Remove predicate ${i + 1}`} onClick={() => onEdit((now) => m.removePredicate(now, name, i))}>
              ×
            </button>
          )}
        </div>
      ))}
      {box.filter && <button onClick={() => onEdit((now) => m.addPredicate(now, name))}>Add a predicate</button>}
      {box.map && <Pairs title="Column" values={box.map} wrong={wrong} onChange={(map, field) => set({ map }, `map${field}`)} />}
      {box.aggregate && <Pairs title="Result" values={box.aggregate} wrong={wrong} onChange={(aggregate, field) => set({ aggregate }, `aggregate${field}`)} />}
      {box.resample && <Pairs title="Result" values={box.resample} wrong={wrong} onChange={(resample, field) => set({ resample }, `resample${field}`)} />}
      {box.running && <Pairs title="Result" values={box.running} wrong={wrong} onChange={(running, field) => set({ running }, `running${field}`)} />}
      {box.running && (
        <Row label="Group by">
          <Words label="Group by" words={box.group_by ?? []} onChange={(group_by) => set({ group_by: group_by.length ? group_by : undefined }, "group_by")} />
        </Row>
      )}
      {box.latest && (
        <Row label="Match on">
          <Words label="Match on" words={box.latest} onChange={(latest) => set({ latest }, "latest")} />
        </Row>
      )}
      {box.latest && <Check label="Earlier arrivals only" on={box.before} onChange={(before) => set({ before }, "before")} />}
      {box.join !== undefined && <Text label="Predicate" mono value={box.join} wrong={wrong(box.join)} placeholder="left.pos = right.pos" onChange={(join) => set({ join }, "join")} />}
      {lookup && <Check label="Keep tuples without a match" on={box.outer} onChange={(outer) => set({ outer }, "outer")} />}
      <ClassFields box={box} contents={contents} wrong={wrong} set={set} />
      {(box.bsort || box.aggregate) && order("order", 0, "Order")}
      {((box.join !== undefined && !lookup) || box.resample) && [order("left", 0, "Left order"), order("right", 1, "Right order")]}
      {(box.aggregate || box.resample || (box.join !== undefined && !lookup)) && <Numeric label="Window size" value={box.size} onChange={(size) => set({ size }, "size")} />}
      {box.aggregate && <Numeric label="Advance" value={box.advance} hint="the size" onChange={(advance) => set({ advance }, "advance")} />}
      {box.aggregate && <Numeric label="Timeout (s)" value={box.timeout} hint="none" onChange={(timeout) => set({ timeout }, "timeout")} />}
      {box.aggregate && <Check label="Closed by a clock" on={box.clock !== undefined} onChange={(on) => set({ clock: on ? "" : undefined }, "clock")} />}
      {box.resample && <Numeric label="Lag" value={box.lag} hint="wait for all" onChange={(lag) => set({ lag }, "lag")} />}
      <Row label="Group">
        <Text label="Group" value={box.group ?? ""} list="groups" placeholder="none" onChange={(group) => set({ group: group || undefined }, "group")} />
      </Row>
      <datalist id="groups">
        {[...new Set(Object.values(doc.boxes).map((one) => one.group).filter(Boolean))].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <Row label="Note">
        <Text label="Note" value={box.note ?? ""} onChange={(note) => set({ note: note || undefined }, "note")} />
      </Row>
    </>
  );
}

type Set = (fields: Partial<Record<keyof m.Box, unknown>>, field: string) => void;

/** The fields of boxes on cuboids, of the toll box and of operators. */
function ClassFields({ box, contents, wrong, set }: { box: m.Box; contents: WorkspaceContents | undefined; wrong: (text: string) => boolean; set: Set }) {
  const shapes = shapesOf(contents);
  const shape = m.shapeOf(box, shapes);
  const loaded = shapes.filter((one) => one.kind === "operator");
  const named = box.operator === "" || loaded.some((one) => one.name === box.operator) ? loaded : [...loaded, { name: box.operator ?? "", about: "" }];
  return (
    <>
      {box.keep !== undefined && <Statement label="Cuboid" value={box.keep} placeholder="CREATE CUBOID car (vid INT KEY, speed AST(6))" onChange={(keep) => set({ keep }, "keep")} />}
      {box.keep !== undefined && (
        <Row label="Ranges from">
          <Words label="Ranges from" words={(box.ranges ?? []).map(String)} onChange={(words) => set({ ranges: words.length ? words.map(Number).filter(Number.isInteger) : undefined }, "ranges")} />
        </Row>
      )}
      {box.query !== undefined && <Statement label="Query" value={box.query} placeholder="SELECT vid, avg(speed) AS mean FROM car" onChange={(query) => set({ query }, "query")} />}
      {box.lookup && <Pairs title="Column" values={box.lookup} wrong={wrong} onChange={(lookup, field) => set({ lookup }, `lookup${field}`)} />}
      {box.lookup && (
        <Row label="Key column">
          <Text label="Key column" mono value={box.key ?? ""} wrong={wrong(box.key ?? "")} placeholder="vid" onChange={(key) => set({ key }, "key")} />
        </Row>
      )}
      {box.lookup && <Check label="Keep tuples without a row" on={box.outer} onChange={(outer) => set({ outer }, "outer")} />}
      {box.toll && <ParameterFields shape={shape} given={box.toll} onChange={(toll, field) => set({ toll }, `toll${field}`)} />}
      {box.operator !== undefined && (
        <Row label="Operator">
          <select aria-label="Operator" value={box.operator} onChange={(event) => set(m.asOperator(box, event.target.value, loaded.find((one) => one.name === event.target.value)), "operator")}>
            <option value="">choose one</option>
            {named.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}
              </option>
            ))}
          </select>
        </Row>
      )}
      {box.operator !== undefined && shape && <p className="dim">{shape.about}</p>}
      {box.operator !== undefined && shape && (
        <ParameterFields shape={shape} given={box.parameters ?? {}} onChange={(given, field) => set({ parameters: Object.keys(given).length ? given : undefined }, `parameters${field}`)} />
      )}
      {box.operator !== undefined && !shape && (
        <p className="dim">
          Operators are Python classes. Load a file of them with <code>slipstream console --functions FILE.py</code>.
        </p>
      )}
    </>
  );
}

/** Parameters by the types in their class; an empty field means the default. */
function ParameterFields({ shape, given, onChange }: { shape: m.Shape | undefined; given: m.Parameters; onChange: (given: m.Parameters, field: string) => void }) {
  const put = (name: string, value: unknown) => onChange(Object.fromEntries(Object.entries({ ...given, [name]: value }).filter(([, one]) => one !== undefined)), name);
  return shape?.parameters.map(({ name, type, default: standard, is_required }) => {
    const value = given[name];
    const hint = is_required ? "" : String(standard ?? "none");
    if (type === "bool") return <Check key={name} label={name} on={Boolean(value ?? standard)} onChange={(on) => put(name, on === Boolean(standard) ? undefined : Boolean(on))} />;
    if (/^(int|float)\b/.test(type)) return <Numeric key={name} label={name} value={typeof value === "number" ? value : undefined} hint={hint} onChange={(fresh) => put(name, fresh)} />;
    if (Array.isArray(value) || /^(tuple|list|Sequence)/.test(type)) {
      return (
        <Row key={name} label={name}>
          <Words label={name} words={Array.isArray(value) ? value.map(String) : []} onChange={(words) => put(name, words.length ? words : undefined)} />
        </Row>
      );
    }
    return (
      <Row key={name} label={name}>
        <Text label={name} mono value={String(value ?? "")} placeholder={hint} onChange={(text) => put(name, text || (is_required ? "" : undefined))} />
      </Row>
    );
  });
}

function Statement({ label, value, placeholder, onChange }: { label: string; value: string; placeholder: string; onChange: (text: string) => void }) {
  return <textarea aria-label={label} className="mono" rows={4} spellCheck={false} value={value} placeholder={placeholder} onChange={(event) => onChange(event.target.value)} />;
}

function Check({ label, on, onChange }: { label: string; on: boolean | undefined; onChange: (on: true | undefined) => void }) {
  return (
    <Row label={label}>
      <input type="checkbox" aria-label={label} checked={on ?? false} onChange={(event) => onChange(event.target.checked || undefined)} />
    </Row>
  );
}

function OrderFields({ label, id, order, known, wrong, onChange }: { label: string; id: string; order: m.Order; known: string[]; wrong: Complaint[]; onChange: (order: m.Order) => void }) {
  const bad = wrong.some((one) => order.on !== "" && one.column === order.on);
  const set = (fields: Partial<m.Order>) => {
    const merged = { ...order, ...fields };
    onChange({ on: merged.on, ...(merged.slack ? { slack: merged.slack } : {}), ...(merged.group_by?.length ? { group_by: merged.group_by } : {}) });
  };
  return (
    <fieldset>
      <legend>{label}</legend>
      <Row label="On">
        <Text label={`${label} on`} mono value={order.on} wrong={bad} list={`${id}-columns`} placeholder="time" onChange={(on) => set({ on })} />
      </Row>
      <datalist id={`${id}-columns`}>
        {[...known, "Tup#"].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <Numeric label="Slack" value={order.slack} hint="0" onChange={(slack) => set({ slack: slack ?? 0 })} />
      <Row label="Group by">
        <Words label={`${label} group by`} words={order.group_by ?? []} onChange={(group_by) => set({ group_by })} />
      </Row>
    </fieldset>
  );
}

/** Words separated by commas; not reformatted while typing. */
function Words({ label, words, onChange }: { label: string; words: string[]; onChange: (words: string[]) => void }) {
  const [text, setText] = useState(words.join(", "));
  const parsed = (typed: string) => typed.split(",").map((word) => word.trim()).filter(Boolean);
  useEffect(() => {
    setText((now) => (parsed(now).join() === words.join() ? now : words.join(", ")));
  }, [words]);
  return (
    <Text
      label={label}
      mono
      value={text}
      placeholder="none"
      onChange={(typed) => {
        setText(typed);
        onChange(parsed(typed));
      }}
    />
  );
}

/** name = expression, one per line. */
function Pairs({ title, values, wrong, onChange }: { title: string; values: m.Columns; wrong: (text: string) => boolean; onChange: (values: m.Columns, field: string) => void }) {
  const entries = Object.entries(values);
  const put = (i: number, entry: [string, string]) => onChange(Object.fromEntries(entries.map((one, k) => (k === i ? entry : one))), String(i));
  const free = () => {
    let n = entries.length + 1;
    while (`column_${n}` in values) n++;
    return `column_${n}`;
  };
  return (
    <div className="pairs">
      {entries.map(([name, text], i) => (
        <div className="pair" key={i}>
          <Text label={`${title} ${i + 1} name`} mono value={name} wrong={!m.isName(name)} onChange={(fresh) => fresh in values || put(i, [fresh, text])} />
          <span>=</span>
          <Text label={`${title} ${i + 1}`} mono value={text} wrong={wrong(text)} onChange={(fresh) => put(i, [name, fresh])} />
          <button className="plain" aria-label={`Remove ${name}`} onClick={() => onChange(Object.fromEntries(entries.filter((_, k) => k !== i)), "-")}>
            ×
          </button>
        </div>
      ))}
      <button onClick={() => onChange({ ...values, [free()]: "" }, "+")}>Add a {title.toLowerCase()}</button>
    </div>
  );
}

const DELAY: m.Points = [[0, 1], [2, 1], [60, 0]];
const DROP: m.Points = [[0, 0], [1, 1]];

function OutputFields({ doc, id, output, verdict, contents, onEdit }: Props & { id: string; output: m.Output }) {
  const set = (fields: Partial<Record<keyof m.Output, unknown>>, field: string) => onEdit((now) => m.change(now, id, fields), `${id}.${field}`);
  const numbers = Object.entries(verdict?.schemas[output.from] ?? {}).filter(([, type]) => type === "bigint" || type === "double");
  return (
    <>
      <Inputs doc={doc} id={id} contents={contents} onEdit={onEdit} />
      {output.archive && (
        <>
          <p className="dim">One row per trip. A gap of more than gap seconds ends a trip; tuples without a trip go to {m.split(id)[1]}_rejects.</p>
          <ParameterFields shape={shapesOf(contents).find((one) => one.name === "archive")} given={output.archive} onChange={(archive, field) => set({ archive }, `archive${field}`)} />
        </>
      )}
      {!output.view && (
        <Row label="Also to">
          <Words label="Also to" words={[output.to ?? []].flat()} onChange={(to) => set({ to: to.length > 1 ? to : to[0] }, "to")} />
        </Row>
      )}
      <h3>Quality of service</h3>
      <QosGraph title="By delay" unit="seconds" points={output.delay ?? DELAY} onChange={(delay) => set({ delay }, "delay")} />
      <QosGraph title="By share delivered" unit="" range={[0, 1]} points={output.drop ?? DROP} onChange={(drop) => set({ drop }, "drop")} />
      <Row label="By value of">
        <select
          aria-label="By value of"
          value={output.value?.column ?? ""}
          onChange={(event) => set({ value: event.target.value ? { column: event.target.value, graph: output.value?.graph ?? [[0, 0.2], [100, 1]] } : undefined }, "value")}
        >
          <option value="">no column</option>
          {numbers.map(([name]) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </Row>
      {output.value && <QosGraph title={`By ${output.value.column}`} unit="" points={output.value.graph} onChange={(graph) => set({ value: { ...output.value, graph } }, "graph")} />}
      {!output.archive && <Check label="View" on={output.view} onChange={(view) => set({ view, to: view ? undefined : output.to, keep_seconds: undefined, keep_tuples: undefined }, "view")} />}
      {output.view && <Keep kept={output} set={set} />}
    </>
  );
}

function Keep({ kept, set }: { kept: { keep_seconds?: number; keep_tuples?: number }; set: (fields: { keep_seconds?: number | undefined; keep_tuples?: number | undefined }, field: string) => void }) {
  return (
    <>
      <Numeric label="Keep (s)" value={kept.keep_seconds} hint="all" onChange={(keep_seconds) => set({ keep_seconds }, "keep_seconds")} />
      <Numeric label="Keep tuples" value={kept.keep_tuples} hint="all" onChange={(keep_tuples) => set({ keep_tuples }, "keep_tuples")} />
    </>
  );
}

function PointFields({ doc, id, point, contents, onEdit }: Props & { id: string; point: m.Point }) {
  const set = (fields: object, field: string) => onEdit((now) => m.change(now, id, fields), `${id}.${field}`);
  return (
    <>
      <Inputs doc={doc} id={id} contents={contents} onEdit={onEdit} />
      <Keep kept={point} set={set} />
      <Row label="Sorted by">
        <Text label="Sorted by" mono value={point.key ?? ""} placeholder="arrival" onChange={(key) => set({ key: key || undefined }, "key")} />
      </Row>
    </>
  );
}

function NetworkPanel({ doc, verdict, onEdit, onSelect }: Props) {
  const whole = verdict?.complaints.filter((one) => !one.place) ?? [];
  return (
    <section className="inspector" aria-label="Properties of the network">
      <header>
        <h2>Network</h2>
      </header>
      <Row label="Name">
        <Text label="Network name" value={doc.network} onChange={(network) => onEdit((now) => ({ ...now, network }), "network")} />
      </Row>
      <Row label="Note">
        <textarea aria-label="Network note" rows={4} value={doc.note ?? ""} onChange={(event) => onEdit((now) => ({ ...now, note: event.target.value }), "note")} />
      </Row>
      <Complaints all={whole} />
      {verdict?.complaints.filter((one) => one.place).map((one) => (
        <button key={one.place} className="to-complaint" onClick={() => onSelect(one.place)}>
          <strong>{m.split(one.place)[1]}</strong> {one.message}
        </button>
      ))}
      {verdict?.warnings.map((one) => (
        <p key={one} className="dim">
          {one}
        </p>
      ))}
      {verdict?.stages.map((one) => (
        <p key={one.stage} className="dim">
          {describeStage(verdict, one.stage)}
          {one.boxes.length > 0 && `, with ${one.boxes.join(", ")}`}
        </p>
      ))}
      <p className="dim">Select a box to edit it. Drag from one dot to another to connect them; Delete removes the selection.</p>
    </section>
  );
}

function ArcPanel({ doc, arc, target, side, verdict, run, contents, onEdit, onSelect, onProblem }: Props & { arc: string; target: string; side: number }) {
  const schema = verdict?.schemas[arc];
  const drop = run?.drops.find((one) => one.arc === arc && one.side === side && `${one.is_output ? "outputs" : "boxes"}.${one.taker}` === target);
  const busy = run?.status === "running" || run?.status === "paused";
  const set = (share: number) => {
    const shares = Object.fromEntries((run?.drops ?? []).filter((one) => one.share > 0).map((one) => [one.place, one.share]));
    if (drop) shed({ ...shares, [drop.place]: share }).catch(onProblem);
  };
  return (
    <section className="inspector" aria-label="Properties of the arc">
      <header>
        <h2>Arc</h2>
        <span className="dim">
          {m.arcTitle(doc, arc, shapesOf(contents))} → {m.split(target)[1]}
        </span>
      </header>
      {schema ? (
        <table className="schema mono">
          <tbody>
            {Object.entries(schema).map(([name, type]) => (
              <tr key={name}>
                <td>{name}</td>
                <td className="dim">{type}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="dim">Its columns are unknown until the errors upstream are fixed.</p>
      )}
      {busy && drop && (
        <Row label={`Drop ${Math.round(drop.share * 100)} %`}>
          <input type="range" aria-label="Share to drop here" min={0} max={100} step={5} value={Math.round(drop.share * 100)} onChange={(event) => set(Number(event.target.value) / 100)} />
        </Row>
      )}
      <button
        className="remove"
        onClick={() => {
          onEdit((now) => m.disconnect(now, target, side));
          onSelect(undefined);
        }}
      >
        Disconnect
      </button>
    </section>
  );
}
