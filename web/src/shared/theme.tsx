// Light and dark theme. The choice is stored in the browser; the default is the system's.
import { useSyncExternalStore } from "react";

export type Theme = "dark" | "light";
const KEY = "slipstream-theme";
const listeners = new Set<() => void>();

export function storedTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  if (stored === "dark" || stored === "light") return stored;
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

/** A colour of the theme, for canvases, which cannot use style sheets. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
