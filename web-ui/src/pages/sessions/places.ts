// Where a person was in the list, for each entry of the browser's history: Back and Forward find it again.

import { newKey } from "../../model/session/new-key.ts";

export interface Place {
  /** Pixels that were scrolled. */
  readonly top: number;
  readonly chosen: string | null;
}

export const TOP: Place = { top: 0, chosen: null };

/** Entries that are remembered, the latest ones. */
const ENTRIES_MAX = 100;

export interface Places {
  readonly of: (entry: string) => Place;
  readonly keep: (entry: string, more: Partial<Place>) => void;
}

export function createPlaces(): Places {
  const places = new Map<string, Place>();
  const of = (entry: string) => places.get(entry) ?? TOP;
  return {
    of,
    keep: (entry, more) => {
      const place = { ...of(entry), ...more };
      // Last in the order of the map is latest.
      places.delete(entry);
      places.set(entry, place);
      const [oldest] = places.keys();
      if (places.size > ENTRIES_MAX && oldest !== undefined) places.delete(oldest);
    },
  };
}

export const places = createPlaces();

/** The name of the present entry of the history; it is given one if it has none. */
export function entryNow(): string {
  const state: unknown = window.history.state;
  const known = typeof state === "object" && state !== null ? state : {};
  if ("entry" in known && typeof known.entry === "string") return known.entry;
  const entry = newKey();
  window.history.replaceState({ ...known, entry }, "");
  return entry;
}
