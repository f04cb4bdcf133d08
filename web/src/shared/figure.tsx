// A labelled quantity, for use in a list.
import type { ReactNode } from "react";
import { Tip } from "./tip";

interface Props {
  name: string;
  value: ReactNode;
  unit?: string;
  alarm?: boolean;
  /** what the name means */
  tip?: string;
}

export function Figure({ name, value, unit, alarm, tip }: Props) {
  return (
    <div className={`figure ${alarm ? "alarm" : ""}`}>
      <dt>{tip ? <Tip text={tip}>{name}</Tip> : name}</dt>
      <dd>
        {value} {unit && <small>{unit}</small>}
      </dd>
    </div>
  );
}
