// Data that is requested again when something it depends on has changed, one request at a time.
import { useEffect, useRef, useState } from "react";
import { get, Problem } from "./api";

export interface Fresh<T> {
  data: T | undefined;
  problem: Problem | undefined;
}

/** `path` undefined requests nothing; `when` is what the response depends on besides the path. */
export function useFresh<T>(path: string | undefined, when: unknown): Fresh<T> {
  const [answer, setAnswer] = useState<Fresh<T> & { path?: string | undefined }>({ data: undefined, problem: undefined });
  const busy = useRef<string>(undefined);
  useEffect(() => {
    if (path === undefined || busy.current === path) return;
    busy.current = path;
    void get<T>(path)
      .then(
        (data) => ({ data, problem: undefined, path }),
        (problem: Problem) => ({ data: undefined, problem, path }),
      )
      .then((next) => {
        if (busy.current === path) {
          busy.current = undefined;
          setAnswer(next);
        }
      });
  }, [path, when]);
  return answer.path === path ? answer : { data: undefined, problem: undefined };
}

/** The last known value, until the next response arrives. */
export function useLatest<T>(fresh: T | undefined, of: unknown): T | undefined {
  const [kept, setKept] = useState<{ of: unknown; data: T }>();
  useEffect(() => {
    if (fresh !== undefined) setKept({ of, data: fresh });
  }, [fresh, of]);
  return fresh ?? (kept?.of === of ? kept?.data : undefined);
}
