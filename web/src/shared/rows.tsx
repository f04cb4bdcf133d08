// A table of what was found.
import type { ReactNode } from "react";

export function Rows({ columns, rows }: { columns: readonly string[]; rows: readonly (readonly ReactNode[])[] }) {
  return (
    <table>
      <thead>
        <tr>
          {columns.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={i}>
            {row.map((cell, k) => (
              <td key={k}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A value of the data as text; nothing is a dash. */
export const text = (value: unknown): string => (value === null || value === undefined ? "–" : String(value));
