import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Connection } from "../../api/feed.ts";
import { eventWords, FAMILIES } from "../../model/session/family.ts";
import {
  columns,
  type Strip,
  seek,
  stepAt,
  timeAt,
  typeAt,
  type Unit,
} from "../../model/session/strip.ts";
import { clock, exact } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import type { Way } from "./use-moment.ts";

const HEIGHT = 24;
/** Pixels that an event must have to be drawn apart from its neighbours. */
const BAR_WIDTH_MIN = 6;
const BAR_WIDTH_MAX = 24;
/** Pixels that the rarest kind of event in a column has. */
const SHARE_HEIGHT_MIN = 3;

interface Props {
  readonly strip: Strip;
  /** The event that is shown; `null` for now. */
  readonly seq: number | null;
  readonly onMoment: (seq: number | null, way?: Way) => void;
  readonly connection: Connection;
}

// Made once: the line around them changes with every moment of a drag.
const BACK = <ChevronLeft size={14} aria-hidden />;
const ON = <ChevronRight size={14} aria-hidden />;

const UNITS: ReadonlyArray<readonly [Unit, string]> = [
  ["event", "event"],
  ["model", "model call"],
  ["tool", "tool call"],
];

/** All events as a strip, and the moment that is shown. Its right end is now. */
export function Scrubber({ strip, seq, onMoment, connection }: Props) {
  const shown = seq ?? strip.length;
  const go = (to: number | null, way: Way) => {
    if (to !== null) onMoment(to >= strip.length ? null : to, way);
  };
  return (
    <footer className="scrubber">
      <Track strip={strip} shown={shown} isLive={seq === null} onMoment={go} />
      <div className="scrubber-line">
        <span className="scrubber-count">
          {shown}/{strip.length}
        </span>
        <LiveButton seq={seq} connection={connection} onLive={() => onMoment(null)} />
        {UNITS.map(([unit, words]) => (
          <span key={unit} className="scrubber-unit">
            <Button
              kind="quiet"
              icon={BACK}
              aria-label={`back by one ${words}`}
              disabled={seek(strip, shown, unit, -1) === null}
              onClick={() => go(seek(strip, shown, unit, -1), "step")}
            />
            {words}
            <Button
              kind="quiet"
              icon={ON}
              aria-label={`on by one ${words}`}
              disabled={seq === null}
              onClick={() => go(seek(strip, shown, unit, 1) ?? strip.length, "step")}
            />
          </span>
        ))}
        <span className="scrubber-space" />
        <span className="scrubber-what">
          {strip.length > 0 && (
            <>
              step {stepAt(strip, shown)} · {eventWords(typeAt(strip, shown))} ·{" "}
              <time title={exact(timeAt(strip, shown))}>{clock(timeAt(strip, shown))}</time>
            </>
          )}
        </span>
      </div>
    </footer>
  );
}

interface LiveProps {
  readonly seq: number | null;
  readonly connection: Connection;
  readonly onLive: () => void;
}

function LiveButton({ seq, connection, onLive }: LiveProps) {
  return (
    <>
      {seq !== null && (
        <Button kind="quiet" className="scrubber-back" onClick={onLive}>
          back to {connection === "over" || connection === "gone" ? "the end" : "live"}
        </Button>
      )}
      {(seq === null || connection === "broken" || connection === "gone") && (
        <span className={`scrubber-live is-${connection}`} role="status">
          {CONNECTIONS[connection]}
        </span>
      )}
    </>
  );
}

const CONNECTIONS: Record<Connection, string> = {
  live: "live",
  over: "the end",
  reading: "reading …",
  broken: "connection lost, trying again",
  gone: "deleted",
};

interface TrackProps {
  readonly strip: Strip;
  readonly shown: number;
  readonly isLive: boolean;
  readonly onMoment: (seq: number, way: Way) => void;
}

function Track({ strip, shown, isLive, onMoment }: TrackProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const it = canvas.current;
    if (it === null) return;
    const sizes = new ResizeObserver(() => setWidth(it.clientWidth));
    sizes.observe(it);
    const redraw = () => setTheme((times) => times + 1);
    const themes = new MutationObserver(redraw);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", redraw);
    return () => {
      sizes.disconnect();
      themes.disconnect();
      dark.removeEventListener("change", redraw);
    };
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: colours change with the theme
  useEffect(() => {
    if (canvas.current !== null) draw(canvas.current, strip, width);
  }, [strip, width, theme]);
  const move = (event: React.PointerEvent<HTMLDivElement>, way: Way) => {
    const box = event.currentTarget.getBoundingClientRect();
    const part = (event.clientX - box.left) / Math.max(1, box.width);
    onMoment(Math.min(strip.length, Math.max(1, Math.ceil(part * strip.length))), way);
  };
  const at = strip.length === 0 ? 1 : shown / strip.length;
  return (
    <div
      className="scrubber-track"
      role="slider"
      tabIndex={0}
      aria-label="Moment of the session"
      aria-valuemin={1}
      aria-valuemax={strip.length}
      aria-valuenow={shown}
      aria-valuetext={`event ${shown} of ${strip.length}, ${eventWords(typeAt(strip, shown))}${isLive ? ", now" : ""}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        move(event, "jump");
      }}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) move(event, "step");
      }}
      onKeyDown={(event) => {
        const to = keyed(event.key, shown, strip.length);
        if (to === null) return;
        event.preventDefault();
        onMoment(to, Math.abs(to - shown) > 1 ? "jump" : "step");
      }}
    >
      <canvas ref={canvas} height={HEIGHT} />
      <div
        className={isLive ? "scrubber-here is-live" : "scrubber-here"}
        style={{ left: `${at * 100}%` }}
      />
    </div>
  );
}

/** The keys that a slider has. */
function keyed(key: string, shown: number, length: number): number | null {
  const far = Math.max(1, Math.round(length / 20));
  const to: Record<string, number> = {
    ArrowLeft: shown - 1,
    ArrowDown: shown - 1,
    ArrowRight: shown + 1,
    ArrowUp: shown + 1,
    PageDown: shown - far,
    PageUp: shown + far,
    Home: 1,
    End: length,
  };
  const found = to[key];
  return found === undefined ? null : Math.min(length, Math.max(1, found));
}

function draw(canvas: HTMLCanvasElement, strip: Strip, width: number): void {
  const scale = window.devicePixelRatio;
  canvas.width = Math.round(width * scale);
  canvas.height = HEIGHT * scale;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const style = getComputedStyle(canvas);
  const colours = FAMILIES.map((it) => style.getPropertyValue(`--kind-${it}`));
  // `light-dark()` is only resolved where it is used: let the browser say what it came to.
  const resolved = colours.map((colour) => {
    canvas.style.color = colour;
    return getComputedStyle(canvas).color;
  });
  // Few events: each is a bar of its own.
  const isSparse = strip.length * BAR_WIDTH_MIN < canvas.width;
  const count = isSparse ? strip.length : canvas.width;
  const step = canvas.width / count;
  const found = columns(strip, count);
  for (let at = 0; at < count; at += 1) {
    const shares = found.subarray(at * FAMILIES.length, (at + 1) * FAMILIES.length);
    // After its event is where a moment lies, so a bar stands at the end of its place.
    const width = isSparse ? Math.min(step - 2 * scale, BAR_WIDTH_MAX * scale) : step;
    drawColumn(context, shares, resolved, (at + 1) * step - width, width);
  }
}

/** A column is as high as the strip; what is rare in it is seen nevertheless. */
function drawColumn(
  context: CanvasRenderingContext2D,
  shares: Uint32Array,
  colours: readonly string[],
  x: number,
  width: number,
): void {
  const { height } = context.canvas;
  const all = shares.reduce((sum, share) => sum + share, 0);
  let top = 0;
  shares.forEach((share, family) => {
    if (share === 0) return;
    const part = Math.max(SHARE_HEIGHT_MIN, Math.round((share / all) * height));
    context.fillStyle = colours[family] ?? "gray";
    // The last one reaches the ground, whatever was rounded before it.
    context.fillRect(x, Math.min(top, height - part), width, height);
    top += part;
  });
}
