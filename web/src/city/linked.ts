// The address of the live city: which result and second it shows. All screens of a console show the same, so the
// address sets what is shown when the page is opened, and follows it from then on.
import { useEffect, useRef, useState } from "react";
import { post, Problem } from "../shared/api";
import { numbers } from "../shared/link";
import { param, setParams } from "../shared/router";
import type { State } from "./types";

async function apply(state: State): Promise<void> {
  const result = param("result");
  const second = numbers(param("second"), 1)?.[0];
  if (result !== undefined && result !== state.result) await post("/api/city/open", { result });
  if (second !== undefined) await post("/api/city/look", { follow: false, second: Math.max(0, second), playing: false, speed: state.view.speed });
}

export function useLinkedState(state: State | undefined, onProblem: (problem: Problem) => void): void {
  const begun = useRef(false);
  const [applied, setApplied] = useState(false);
  useEffect(() => {
    if (!state || begun.current) return;
    begun.current = true;
    apply(state)
      .catch((problem: unknown) => problem instanceof Problem && onProblem(problem))
      // the stream tells what is shown now within a quarter of a second
      .finally(() => window.setTimeout(() => setApplied(true), 500));
  }, [state, onProblem]);
  const held = state && !state.view.follow && !state.view.playing;
  const second = held ? String(Math.max(0, Math.floor(state.view.second))) : undefined;
  const result = state?.result;
  useEffect(() => {
    if (applied) setParams({ result, second });
  }, [applied, result, second]);
}
