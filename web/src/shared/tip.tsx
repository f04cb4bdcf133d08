// A word with its definition: shown on hover, on focus, and on a tap; Escape hides it.
import { type ReactNode, useId, useState } from "react";

export function Tip({ text, children }: { text: string; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <span className="tip" onMouseEnter={() => setOpen(true)} onMouseLeave={() => setOpen(false)}>
      <button
        type="button"
        className="plain"
        aria-describedby={open ? id : undefined}
        onClick={() => setOpen(true)}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={(event) => event.key === "Escape" && setOpen(false)}
      >
        {children}
      </button>
      {open && (
        <span role="tooltip" id={id}>
          {text}
        </span>
      )}
    </span>
  );
}
