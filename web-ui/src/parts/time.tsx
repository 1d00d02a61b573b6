import { useSyncExternalStore } from "react";
import { age, exact, left } from "../model/words.ts";

/** How often relative times are said anew. */
const TICK_MS = 1_000;

const watchers = new Set<() => void>();
let now = Date.now();
let timer: number | undefined;

function watch(changed: () => void): () => void {
  watchers.add(changed);
  timer ??= window.setInterval(() => {
    now = Date.now();
    for (const tell of watchers) tell();
  }, TICK_MS);
  return () => {
    watchers.delete(changed);
    if (watchers.size > 0) return;
    window.clearInterval(timer);
    timer = undefined;
  };
}

/** The time, once a second: one clock for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

interface AgeProps {
  readonly at: number;
  /** In a sentence: `5 s ago`, `just now`. */
  readonly isSaid?: boolean;
}

/** How long ago; the exact time on hover. */
export function Age({ at, isSaid = false }: AgeProps) {
  const short = age(at, useNow());
  const words = !isSaid ? short : short === "now" ? "just now" : `${short} ago`;
  return (
    <time dateTime={new Date(at).toISOString()} title={exact(at)}>
      {words}
    </time>
  );
}

/** How long until then; the exact time on hover. */
export function Left({ until }: { readonly until: number }) {
  const words = left(until, useNow());
  return (
    <time dateTime={new Date(until).toISOString()} title={exact(until)}>
      {words}
    </time>
  );
}
