// The network editor: draw boxes and arcs, check them while drawing, run them, inspect their tuples.
import "./network.css";
import { ReactFlowProvider } from "@xyflow/react";
import { Fragment, useCallback, useEffect, useRef, useState } from "react";
import { Problem } from "../shared/api";
import { Empty, ErrorNote } from "../shared/notes";
import { param, setParams } from "../shared/router";
import { Canvas, DRAGGED, Glyph } from "./canvas";
import { Inspector } from "./inspector";
import { type Fields, firstInput, type Inputs } from "./input";
import type { Positions } from "./layout";
import * as m from "./model";
import { PreviewDrawer } from "./preview";
import { RunBar, TupleDrawer, useRun } from "./run";
import * as server from "./server";

const KEY = "slipstream-network";
/** The draft, which survives a reload. */
interface Desk {
  file: string;
  doc: m.Doc;
  saved: string;
  positions: Positions;
  /** what sources and tables read */
  recordings: Inputs;
  /** the fields of feeds behind columns */
  fields: Fields;
  /** partitions of every stage */
  parallel: number;
  showStages: boolean;
}
const BLANK: Desk = { file: "", doc: m.EMPTY, saved: JSON.stringify(m.EMPTY), positions: {}, recordings: {}, fields: {}, parallel: 1, showStages: true };
const NO_SHAPES: readonly m.Shape[] = [];
const NO_FOLDERS: readonly string[] = [];
/** Screens on which a network can be looked at and run, but not drawn. */
const NARROW = "(max-width: 700px)";

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => window.matchMedia(NARROW).matches);
  useEffect(() => {
    const media = window.matchMedia(NARROW);
    const onChange = () => setNarrow(media.matches);
    media.addEventListener("change", onChange);
    return () => media.removeEventListener("change", onChange);
  }, []);
  return narrow;
}

function storedDesk(): Desk {
  try {
    return { ...BLANK, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Desk>) };
  } catch {
    return BLANK;
  }
}

/** The network with undo: edits of one field within a second count as one. */
function useDesk() {
  const [desk, setDesk] = useState(storedDesk);
  const past = useRef<{ docs: m.Doc[]; undone: m.Doc[]; field: string; at: number }>({ docs: [], undone: [], field: "", at: 0 });
  const shown = useRef(desk.doc);
  shown.current = desk.doc;
  useEffect(() => localStorage.setItem(KEY, JSON.stringify(desk)), [desk]);
  const edit = useCallback((change: (doc: m.Doc) => m.Doc, field = "") => {
    setDesk((now) => {
      const doc = change(now.doc);
      if (doc === now.doc) return now;
      const same = field !== "" && past.current.field === field && Date.now() - past.current.at < 1000;
      if (!same && past.current.docs.at(-1) !== now.doc) past.current.docs = [...past.current.docs.slice(-99), now.doc];
      past.current = { ...past.current, undone: [], field, at: Date.now() };
      return { ...now, doc };
    });
  }, []);
  const undo = useCallback(() => {
    const before = past.current.docs.pop();
    past.current.field = "";
    if (!before) return;
    past.current.undone.push(shown.current);
    setDesk((now) => ({ ...now, doc: before }));
  }, []);
  const redo = useCallback(() => {
    const after = past.current.undone.pop();
    past.current.field = "";
    if (!after) return;
    past.current.docs.push(shown.current);
    setDesk((now) => ({ ...now, doc: after }));
  }, []);
  return { desk, setDesk, edit, undo, redo };
}

function useVerdict(doc: m.Doc, parallel: number, onProblem: (problem: Problem | undefined) => void): [server.Verdict | undefined, boolean] {
  const [verdict, setVerdict] = useState<server.Verdict>();
  const [checking, setChecking] = useState(false);
  const [again, setAgain] = useState(0);
  useEffect(() => {
    let wanted = true;
    setChecking(true);
    const soon = window.setTimeout(() => {
      server
        .check(doc, parallel)
        .then((found) => {
          if (!wanted) return;
          setVerdict(found);
          setChecking(false);
          onProblem(undefined);
        })
        .catch((problem: Problem) => {
          if (!wanted) return;
          onProblem(problem);
          window.setTimeout(() => wanted && setAgain((n) => n + 1), 2000);
        });
    }, 250);
    return () => {
      wanted = false;
      window.clearTimeout(soon);
    };
  }, [doc, parallel, again, onProblem]);
  return [verdict, checking];
}

export function NetworkPage() {
  return (
    <ReactFlowProvider>
      <Editor />
    </ReactFlowProvider>
  );
}

function Editor() {
  const { desk, setDesk, edit, undo, redo } = useDesk();
  const [asText, setAsText] = useState(false);
  const { doc, positions, recordings, fields, parallel, showStages } = desk;
  const readOnly = useNarrow();
  const [contents, setContents] = useState<server.WorkspaceContents>();
  const [selected, setSelected] = useState<string>();
  const [group, setGroup] = useState<string>();
  const [opened, setOpened] = useState(0);
  const [problem, setProblem] = useState<Problem>();
  const [lost, setLost] = useState<Problem>();
  const [verdict, checking] = useVerdict(doc, parallel, setLost);
  const [run, setRun] = useRun();
  const look = useCallback(() => void server.contents().then(setContents, setProblem), []);
  useEffect(look, [look]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey)) return;
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (typing) return;
      const key = event.key.toLowerCase();
      if (key === "y" || (key === "z" && event.shiftKey)) redo();
      else if (key === "z") undo();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [undo, redo]);
  useEffect(() => {
    // guess: a recording with the name of the source
    if (!contents) return;
    const wanted = ["sources", "tables"].flatMap((part) => Object.keys(doc[part as "sources"] ?? {}).map((name) => `${part}.${name}`));
    const guesses = wanted.filter((id) => !recordings[id]).flatMap((id) => {
      const found = contents.recordings.find((one) => one.split("/").at(-1)?.replace(/\.\w+$/, "") === m.split(id)[1]);
      return found ? [[id, found] as const] : [];
    });
    if (guesses.length) setDesk((now) => ({ ...now, recordings: { ...now.recordings, ...Object.fromEntries(guesses) } }));
  }, [contents, doc, recordings, setDesk]);

  const put = useCallback(
    (piece: m.Piece, at?: { x: number; y: number }) => {
      const [, id] = m.add(doc, piece, group ?? "");
      edit((now) => m.add(now, piece, group ?? "")[0]);
      if (at) setDesk((now) => ({ ...now, positions: { ...now.positions, [id]: at } }));
      const input = firstInput(piece, contents?.folders ?? []);
      if (input) setDesk((now) => ({ ...now, recordings: { ...now.recordings, [id]: input } }));
      setSelected(id);
    },
    [doc, group, contents, edit, setDesk],
  );
  const place = useCallback((moved: Positions) => setDesk((now) => ({ ...now, positions: { ...now.positions, ...moved } })), [setDesk]);
  const rename = (id: string, name: string) => {
    const fresh = `${m.split(id)[0]}.${name}`;
    const moved = <T,>(things: Record<string, T>) => Object.fromEntries(Object.entries(things).map(([key, thing]) => [key === id ? fresh : key, thing]));
    edit((now) => m.rename(now, id, name));
    setDesk((now) => ({ ...now, positions: moved(now.positions), recordings: moved(now.recordings), fields: moved(now.fields) }));
    setSelected(fresh);
  };
  const shapes = contents?.operators ?? NO_SHAPES;
  const empty = m.placesOf(doc).length === 0;
  const wrong = !verdict || verdict.complaints.length > 0;
  const isBusy = run !== undefined && ["starting", "running", "paused", "stopping"].includes(run.status);
  // a source is looked at before its network runs, not meanwhile
  const isStream = selected?.startsWith("sources.") || selected?.startsWith("tables.");
  const previewed = isStream && !isBusy && selected && recordings[selected] ? selected : undefined;
  const shownRun = run && run.status !== "idle" && run.network === doc.network ? run : undefined;
  return (
    <div className="network page">
      <FileBar desk={desk} setDesk={setDesk} contents={contents} onRefresh={look} onProblem={setProblem} onOpened={() => (setSelected(undefined), setGroup(undefined), setOpened((n) => n + 1))} undo={undo} redo={redo}>
        <Verdict verdict={verdict} checking={checking} lost={lost} awake={contents?.awake ?? false} onSelect={setSelected} />
      </FileBar>
      <RunBar doc={doc} run={run} wrong={wrong} inputs={recordings} fields={fields} folders={contents?.folders ?? NO_FOLDERS} parallel={parallel} onParallel={(many) => setDesk((now) => ({ ...now, parallel: many }))} onRun={setRun} onProblem={setProblem} />
      {problem && <ErrorNote problem={problem} onClose={() => setProblem(undefined)} />}
      {run?.status === "failed" && <ErrorNote problem={{ message: run.error, hint: run.hint }} />}
      <div className="desk">
        {!readOnly && <Palette onAdd={put} />}
        <div className="middle">
          <div className="board">
            {group !== undefined && (
              <nav className="crumbs" aria-label="Groups">
                <button className="plain" onClick={() => setGroup(undefined)}>
                  {doc.network}
                </button>
                / <strong>{group}</strong>
              </nav>
            )}
            <div className="tools">
              {!readOnly && (
                <button title="Put all boxes where the automatic layout has them" onClick={() => (setDesk((now) => ({ ...now, positions: {} })), setOpened((n) => n + 1))}>
                  Auto-layout
                </button>
              )}
              <label className="stages">
                <input type="checkbox" checked={showStages} onChange={(event) => setDesk((now) => ({ ...now, showStages: event.target.checked }))} />
                Stages
              </label>
              <label className="stages">
                <input type="checkbox" checked={asText} onChange={(event) => setAsText(event.target.checked)} />
                YAML
              </label>
            </div>
            <Canvas inputs={recordings} readOnly={readOnly} doc={doc} shapes={shapes} verdict={verdict} showStages={showStages} run={shownRun} group={group} selected={selected} positions={positions} opened={opened} onSelect={setSelected} onEnter={setGroup} onEdit={edit} onPlace={place} onDrop={put} />
            {empty && (
              <div className="over">
                <Empty title="Empty canvas">
                  <p>Drag a source, boxes and an output from the left, and connect their dots. Or open a network above.</p>
                  {contents?.networks.length === 0 && (
                    <p>
                      No networks yet: run <code>slipstream examples</code> in the workspace to create some.
                    </p>
                  )}
                </Empty>
              </div>
            )}
          </div>
          {asText && <Yaml doc={doc} readOnly={readOnly} onRead={(fresh) => edit(() => fresh)} />}
          {previewed && <PreviewDrawer id={previewed} input={recordings[previewed] ?? ""} columns={doc[m.split(previewed)[0] as "sources"]?.[m.split(previewed)[1]] ?? {}} readOnly={readOnly} onEdit={edit} />}
          {shownRun && !previewed && <TupleDrawer doc={doc} shapes={shapes} run={shownRun} selected={selected} />}
        </div>
        {selected?.startsWith("group.") ? (
          <section className="inspector" aria-label="Properties of the group">
            <header>
              <h2>Group</h2>
              <span className="dim">{selected.slice(6)}</span>
            </header>
            <button className="primary" onClick={() => setGroup(selected.slice(6))}>
              Zoom in
            </button>
          </section>
        ) : (
          <Inspector
            doc={doc}
            id={selected}
            verdict={verdict}
            run={shownRun}
            contents={contents}
            inputs={recordings}
            fields={fields}
            readOnly={readOnly}
            onInput={(id, one) => setDesk((now) => ({ ...now, recordings: { ...now.recordings, [id]: one } }))}
            onField={(id, column, field) => setDesk((now) => ({ ...now, fields: { ...now.fields, [id]: { ...now.fields[id], [column]: field } } }))}
            onEdit={edit}
            onSelect={setSelected}
            onRename={rename}
            onProblem={setProblem}
          />
        )}
      </div>
    </div>
  );
}

/** The network as YAML beside the picture: it follows the picture until it is edited. */
function Yaml({ doc, readOnly, onRead }: { doc: m.Doc; readOnly: boolean; onRead: (doc: m.Doc) => void }) {
  const [written, setWritten] = useState("");
  const [typed, setTyped] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    let wanted = true;
    const soon = window.setTimeout(() => {
      server.write(doc).then(
        ({ text }) => wanted && (setWritten(text), setProblem(undefined)),
        (error: Problem) => wanted && setProblem(error),
      );
    }, 250);
    return () => {
      wanted = false;
      window.clearTimeout(soon);
    };
  }, [doc]);
  const read = () =>
    void server.read(typed ?? written).then(
      ({ document }) => {
        onRead(document);
        setTyped(undefined);
        setProblem(undefined);
      },
      (error: Problem) => setProblem(error),
    );
  return (
    <section className="yaml" aria-label="YAML">
      {problem && <ErrorNote problem={problem} onClose={() => setProblem(undefined)} />}
      <textarea aria-label="The network as YAML" spellCheck={false} readOnly={readOnly} value={typed ?? written} onChange={(event) => setTyped(event.target.value)} />
      {typed !== undefined && (
        <div className="buttons">
          <button className="primary" onClick={read}>
            Draw it
          </button>
          <button onClick={() => setTyped(undefined)}>Discard</button>
        </div>
      )}
    </section>
  );
}

function Palette({ onAdd }: { onAdd: (piece: m.Piece) => void }) {
  const [wanted, setWanted] = useState("");
  const matches = (piece: m.Piece) => m.TITLES[piece].join(" ").toLowerCase().includes(wanted.trim().toLowerCase());
  const item = (piece: m.Piece) => (
    <button
      key={piece}
      className="plain"
      draggable
      title={`${m.TITLES[piece][0]}: ${m.TITLES[piece][1]}. Drag it to the canvas, or click to add it.`}
      onDragStart={(event) => {
        event.dataTransfer.setData(DRAGGED, piece);
        event.dataTransfer.effectAllowed = "copy";
      }}
      onClick={() => onAdd(piece)}
    >
      <Glyph kind={piece} />
      {m.TITLES[piece][0]}
    </button>
  );
  return (
    <section className="palette" aria-label="Palette">
      <input type="search" aria-label="Find a box" placeholder="Find a box" value={wanted} onChange={(event) => setWanted(event.target.value)} />
      {m.PALETTE.map(([title, pieces]) => [title, pieces.filter(matches)] as const)
        .filter(([, pieces]) => pieces.length > 0)
        .map(([title, pieces]) => (
          <Fragment key={title}>
            <h3>{title}</h3>
            {pieces.map(item)}
          </Fragment>
        ))}
    </section>
  );
}

interface VerdictProps {
  verdict: server.Verdict | undefined;
  checking: boolean;
  lost: Problem | undefined;
  awake: boolean;
  onSelect: (id: string | undefined) => void;
}

function Verdict({ verdict, checking, lost, awake, onSelect }: VerdictProps) {
  if (lost) return <span className="verdict wrong">{lost.message}</span>;
  if (!verdict) return <span className="verdict" role="status">{awake ? "Checking…" : "Starting Spark to check the network…"}</span>;
  const first = verdict.complaints[0];
  if (first) {
    return (
      <button className="plain verdict wrong" onClick={() => onSelect(first.place || undefined)}>
        {verdict.complaints.length === 1 ? "1 error" : `${verdict.complaints.length} errors`}
      </button>
    );
  }
  return (
    <span className={`verdict right ${checking ? "old" : ""}`} role="status">
      No errors
    </span>
  );
}

interface FileProps {
  desk: Desk;
  setDesk: (change: (now: Desk) => Desk) => void;
  contents: server.WorkspaceContents | undefined;
  onRefresh: () => void;
  onProblem: (problem: Problem | undefined) => void;
  onOpened: () => void;
  undo: () => void;
  redo: () => void;
  children: React.ReactNode;
}

function FileBar({ desk, setDesk, contents, onRefresh, onProblem, onOpened, undo, redo, children }: FileProps) {
  const [name, setName] = useState(desk.file);
  useEffect(() => setName(desk.file), [desk.file]);
  const changed = JSON.stringify(desk.doc) !== desk.saved;
  const typed = name.trim() || desk.doc.network;
  const target = /\.ya?ml$/.test(typed) ? typed : `${typed}.yaml`;
  const show = (file: string, doc: m.Doc) =>
    setDesk((now) => ({ ...now, file, doc, saved: JSON.stringify(doc), positions: file === now.file ? now.positions : {}, recordings: file === now.file ? now.recordings : {}, fields: file === now.file ? now.fields : {} }));
  const leave = () => !changed || window.confirm("Discard unsaved changes?");
  const open = (file: string) => {
    if (!leave()) return;
    server.open(file).then((found) => (show(file, found.document), onOpened(), onProblem(undefined)), onProblem);
  };
  // the address names the file; a draft with changes is kept
  useEffect(() => {
    const linked = param("file");
    if (linked !== undefined && linked !== desk.file && leave()) open(linked);
    // once, when the page is opened
  }, []);
  useEffect(() => setParams({ file: desk.file || undefined }), [desk.file]);
  const save = () =>
    server.save(target, desk.doc, target === desk.file).then((found) => {
      setDesk((now) => ({ ...now, file: target, doc: found.document, saved: JSON.stringify(found.document) }));
      onProblem(undefined);
      onRefresh();
    }, onProblem);
  return (
    <section className="bar" aria-label="Network file">
      <label>
        Open
        <select value={contents?.networks.includes(desk.file) ? desk.file : ""} onFocus={onRefresh} onChange={(event) => open(event.target.value)}>
          <option value="" disabled>
            {contents?.networks.length ? "a network" : "none yet"}
          </option>
          {contents?.networks.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <button className="editing" onClick={() => leave() && (setDesk(({ parallel, showStages }) => ({ ...BLANK, parallel, showStages })), onOpened())}>New</button>
      <label className="editing">
        File
        <input value={name} placeholder={`${desk.doc.network}.yaml`} onChange={(event) => setName(event.target.value)} />
      </label>
      <button className="editing" onClick={() => void save()} disabled={!changed && target === desk.file}>
        Save
      </button>
      <button className="plain editing" onClick={undo} title="Ctrl+Z">
        Undo
      </button>
      <button className="plain editing" onClick={redo} title="Ctrl+Y or Ctrl+Shift+Z">
        Redo
      </button>
      {changed && <span className="dim">unsaved changes</span>}
      <span className="dim only-narrow">Read-only on a small screen</span>
      <span className="grow" />
      {children}
    </section>
  );
}
