// The live stream of the city. The map bypasses React and goes straight to the canvas: it changes too often to render.
import { useEffect, useRef, useState } from "react";
import { listen } from "../shared/api";
import type { Beat, Grid, State } from "./types";

const SHOWN = 900;

export interface Live {
  state: State | undefined;
  beats: readonly Beat[];
  connected: boolean;
  /** the newest map; `onGrid` registers a listener for updates */
  grid: React.RefObject<Grid | undefined>;
  onGrid: (listener: () => void) => () => void;
}

export function useLive(): Live {
  const [state, setState] = useState<State>();
  const [beats, setBeats] = useState<readonly Beat[]>([]);
  const [connected, setConnected] = useState(true);
  const grid = useRef<Grid>(undefined);
  const listeners = useRef(new Set<() => void>());
  const result = useRef("");
  useEffect(
    () =>
      listen(
        "/api/city/stream",
        {
          state: (data) => {
            const next = JSON.parse(data) as State;
            if (next.result !== result.current) {
              result.current = next.result;
              grid.current = undefined;
              setBeats([]);
              for (const listener of listeners.current) listener();
            }
            setState(next);
          },
          grid: (data) => {
            grid.current = unpack(data);
            for (const listener of listeners.current) listener();
          },
          beats: (data) => setBeats((before) => merged(before, JSON.parse(data) as Beat[])),
        },
        setConnected,
      ),
    [],
  );
  const onGrid = useRef((listener: () => void) => {
    listeners.current.add(listener);
    return () => void listeners.current.delete(listener);
  });
  return { state, beats, connected, grid, onGrid: onGrid.current };
}

/** Newer versions of a batch replace older ones. */
export function merged(before: readonly Beat[], fresh: readonly Beat[]): readonly Beat[] {
  const first = fresh[0]?.batch ?? Infinity;
  return [...before.filter((beat) => beat.batch < first), ...fresh].slice(-SHOWN);
}

interface Packed {
  second: number;
  xways: number[];
  speed: string;
  cars: string;
  toll: string;
  accident: string;
}

function unpack(data: string): Grid {
  const packed = JSON.parse(data) as Packed;
  const raw = (text: string) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return {
    second: packed.second,
    xways: packed.xways,
    speed: raw(packed.speed),
    cars: new Uint16Array(raw(packed.cars).buffer),
    toll: new Uint32Array(raw(packed.toll).buffer),
    accident: raw(packed.accident),
  };
}
