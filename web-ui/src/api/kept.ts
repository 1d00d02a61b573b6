// What was read stays on the screen until it is read anew.

import { useEffect, useMemo, useRef, useState } from "react";

/** Entries from `from` up to `end`: those that were found now, and for the others those of before. */
export function useKept<V>(
  found: ReadonlyMap<number, V>,
  scope: string,
  from: number,
  end: number,
): ReadonlyMap<number, V> {
  const before = useRef<{ scope: string; all: ReadonlyMap<number, V> }>({ scope, all: new Map() });
  return useMemo(() => {
    const old = before.current.scope === scope ? before.current.all : new Map<number, V>();
    const all = new Map<number, V>();
    for (let at = from; at < end; at += 1) {
      const value = found.get(at) ?? old.get(at);
      if (value !== undefined) all.set(at, value);
    }
    before.current = { scope, all };
    return all;
  }, [found, scope, from, end]);
}

/** The value, changing at most this often; the last one always comes. */
export function useCalm<V>(value: V, everyMs: number): V {
  const [shown, setShown] = useState(value);
  const changedAt = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, changedAt.current + everyMs - performance.now());
    const timer = window.setTimeout(() => {
      changedAt.current = performance.now();
      setShown(value);
    }, wait);
    return () => window.clearTimeout(timer);
  }, [value, everyMs]);
  return shown;
}
