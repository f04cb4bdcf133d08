// Day and night. The choice is kept in the browser; without one, the system's is taken.
import { useSyncExternalStore } from "react";

export type Theme = "dark" | "light";
const KEY = "slipstream-theme";
const listeners = new Set<() => void>();

export function storedTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  if (kept === "dark" || kept === "light") return kept;
  return matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => (document.documentElement.dataset.theme === "light" ? "light" : "dark"),
  );
}

export function ThemeSwitch() {
  const theme = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  return (
    <button
      className="plain"
      aria-label={`Switch to ${other}`}
      title={`Switch to ${other}`}
      onClick={() => {
        localStorage.setItem(KEY, other);
        applyTheme(other);
        for (const listener of listeners) listener();
      }}
    >
      {theme === "dark" ? "☀" : "☾"}
    </button>
  );
}

/** A colour of the theme, for canvases: they cannot read style sheets by themselves. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
