// Events that contain a text, as they are found.

export interface Found {
  readonly seq: number;
  readonly type: string;
  /** What is around the first place in it. */
  readonly before: string;
  readonly match: string;
  readonly after: string;
}

export interface Finding {
  /** By seq. */
  readonly found: readonly Found[];
  /** The last event that was looked at. */
  readonly seq: number;
  readonly head: number;
  /** It stopped for now: enough was found, or there is no more to look at. */
  readonly isDone: boolean;
}

export const NOTHING_FOUND: Finding = { found: [], seq: 0, head: 0, isDone: false };

/** More events may contain it. */
export function hasMore(it: Finding): boolean {
  return it.isDone && it.seq < it.head;
}

/** Its place in the list, or -1. */
export function placeOf(found: readonly Found[], seq: number | null): number {
  return found.findIndex((it) => it.seq === seq);
}

/**
 * The next one after an event, or the one before it; from the end it goes on at the beginning, but
 * only where the end was looked at.
 */
export function neighbour(it: Finding, seq: number, by: 1 | -1): number | "further" | null {
  const { found } = it;
  const next =
    by === 1 ? found.find((one) => one.seq > seq) : found.findLast((one) => one.seq < seq);
  if (next !== undefined) return next.seq;
  const isWhole = it.isDone && !hasMore(it);
  if (by === 1 && !isWhole) return "further";
  return (by === 1 ? found[0] : found.at(-1))?.seq ?? null;
}

/** What is said of how it stands: `3 of 41`, `41 found`, `12 found, event 30,000 of 100,000 …`. */
export function findingWords(it: Finding, place: number): string {
  const number = (value: number) => value.toLocaleString("en-US");
  const { length } = it.found;
  const count =
    place >= 0 ? `${number(place + 1)} of ${number(length)}` : `${number(length)} found`;
  if (!it.isDone) return it.head === 0 ? "looking …" : `${count}, event ${number(it.seq)} …`;
  if (hasMore(it)) return `${count} up to event ${number(it.seq)}`;
  return length === 0 ? "nowhere in this session" : count;
}
