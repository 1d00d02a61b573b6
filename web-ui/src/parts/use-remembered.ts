// What a person has begun to write outlives the part of the page that it was written in: who looks
// at a past moment for a while finds it again.

import { useCallback, useState } from "react";

/** Oldest first; what is over is forgotten with those that nobody came back to. */
const remembered = new Map<string, unknown>();
const REMEMBERED_MAX = 64;

/** As `useState`, for as long as the page is open; `key` says what it is about. */
export function useRemembered<V>(key: string, initial: V): [V, (value: V) => void] {
  const [value, setValue] = useState<V>(remembered.has(key) ? (remembered.get(key) as V) : initial);
  const set = useCallback(
    (to: V) => {
      remembered.delete(key);
      remembered.set(key, to);
      const oldest = remembered.keys().next();
      if (remembered.size > REMEMBERED_MAX && oldest.done !== true) remembered.delete(oldest.value);
      setValue(to);
    },
    [key],
  );
  return [value, set];
}
