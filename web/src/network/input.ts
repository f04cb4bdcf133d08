// What a source reads: a recording, or a feed (a topic, a socket, or a folder that fills).
import type * as m from "./model";

export type InputKind = "recording" | "folder" | "topic" | "socket";
/** What a source reads, by its place: sources.cars -> cars.csv. */
export type Inputs = Record<string, string>;
/** The field of a feed behind a column, by place and column, where the names differ. */
export type Fields = Record<string, Record<string, string>>;

export const PREFIX: Record<"topic" | "socket", string> = { topic: "kafka:", socket: "tcp:" };

export function kindOfInput(input: string, folders: readonly string[]): InputKind {
  if (input.startsWith(PREFIX.topic)) return "topic";
  if (input.startsWith(PREFIX.socket)) return "socket";
  return folders.includes(input) ? "folder" : "recording";
}

/** Whether the sources of a network are read as feeds: one of them is enough. */
export const readsFeeds = (doc: m.Doc, inputs: Inputs, folders: readonly string[]): boolean =>
  Object.keys(doc.sources).some((name) => kindOfInput(inputs[`sources.${name}`] ?? "", folders) !== "recording");

/** Whether an address is complete enough to look at. */
export const isComplete = (input: string): boolean =>
  input.startsWith(PREFIX.topic) ? /^kafka:[^/]+:\d+\/[\w.-]+$/.test(input) : input.startsWith(PREFIX.socket) ? /^tcp:[^/]+:\d+$/.test(input) : input !== "";

/** The mapping of the columns of all sources, as --columns takes it. */
export const mapping = (doc: m.Doc, fields: Fields): string[] =>
  Object.entries(doc.sources).flatMap(([name, columns]) =>
    Object.keys(columns).flatMap((column) => {
      const field = fields[`sources.${name}`]?.[column]?.trim();
      return field && field !== column ? [`${name}.${column}=${field}`] : [];
    }),
  );

/** What a source that was dragged from the palette reads at first. */
export const firstInput = (piece: m.Piece, folders: readonly string[]): string =>
  piece === "topic" || piece === "socket" ? PREFIX[piece] : piece === "folder" ? (folders[0] ?? "") : "";
