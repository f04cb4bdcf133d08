// Playback controls: play and pause, speed, and the timeline.
import type { ReactNode } from "react";
import { count } from "./format";

interface Props {
  playing: boolean;
  /** the label of the button when paused */
  verb: string;
  speed: number;
  speeds: readonly number[];
  line: string;
  min: number;
  max: number;
  value: number;
  valueText: string;
  /** the share of the timeline that is available */
  filled?: number;
  disabled?: boolean;
  /** what stands over the timeline, such as a histogram */
  above?: ReactNode;
  onPlay: () => void;
  onSpeed: (speed: number) => void;
  onSeek: (value: number) => void;
  children: ReactNode;
}

export function Player({ playing, verb, speed, speeds, line, min, max, value, valueText, filled = 1, disabled = false, above, onPlay, onSpeed, onSeek, children }: Props) {
  const label = playing ? "Pause" : verb;
  return (
    <section className="player" aria-label="Time">
      <button className="plain" onClick={onPlay} disabled={disabled} aria-label={label} title={label}>
        {playing ? "❚❚" : "▶"}
      </button>
      <select aria-label={`${verb} speed`} value={speed} disabled={disabled} onChange={(event) => onSpeed(Number(event.target.value))}>
        {speeds.map((one) => (
          <option key={one} value={one}>
            {count(one)}×
          </option>
        ))}
      </select>
      <div className="line">
        {above}
        <i style={{ width: `${100 * filled}%` }} />
        <input type="range" aria-label={line} aria-valuetext={valueText} min={min} max={max} step={1} value={value} disabled={disabled} onChange={(event) => onSeek(Number(event.target.value))} />
      </div>
      {children}
    </section>
  );
}
