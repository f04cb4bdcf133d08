// Empty and error states: what happened, and what to do.
import type { ReactNode } from "react";

export function ErrorNote({ problem, onClose }: { problem: { message: string; hint?: string }; onClose?: () => void }) {
  return (
    <div className="error" role="alert">
      <strong>{problem.message}</strong>
      {problem.hint && <span>{problem.hint}</span>}
      {onClose && (
        <button className="plain" onClick={onClose} aria-label="Dismiss">
          ×
        </button>
      )}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}
