// Routing without a library: a page is a path, and what it shows is in the query, so that links and reloads show the same.
import { useCallback, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
const changed = () => {
  for (const listener of listeners) listener();
};

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
  };
}

/** Go to a page, with a query if `path` has one. */
export function navigate(path: string): void {
  history.pushState(null, "", path);
  changed();
}

export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname);
}

/** The query with changes applied; a part that is undefined or empty is left out. */
export function withParams(search: string, changes: Record<string, string | undefined>): string {
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") params.delete(name);
    else params.set(name, value);
  }
  // readable links: these characters are allowed in a query
  const text = params.toString().replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/** Change the query of this page; `push` makes a step that the browser's Back button returns from. */
export function setParams(changes: Record<string, string | undefined>, push = false): void {
  const search = withParams(location.search, changes);
  if (search === location.search) return;
  const url = `${location.pathname}${search}`;
  if (push) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  changed();
}

export const param = (name: string): string | undefined => new URLSearchParams(location.search).get(name) ?? undefined;

/** A part of the query as state. */
export function useParam(name: string): [string | undefined, (value: string | undefined, push?: boolean) => void] {
  const value = useSyncExternalStore(subscribe, () => param(name));
  const set = useCallback((next: string | undefined, push = false) => setParams({ [name]: next }, push), [name]);
  return [value, set];
}
