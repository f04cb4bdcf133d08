// A labelled quantity, for use in a list.
import type { ReactNode } from "react";

export function Figure({ name, value, unit, alarm }: { name: string; value: ReactNode; unit?: string; alarm?: boolean }) {
  return (
    <div className={`figure ${alarm ? "alarm" : ""}`}>
      <dt>{name}</dt>
      <dd>
        {value} {unit && <small>{unit}</small>}
      </dd>
    </div>
  );
}
