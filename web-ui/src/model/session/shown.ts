// Which moment is on the screen, and what is said of it: never the name of one beside the content of
// another.

/** A moment that was read: `null` is now. */
export interface Read<S> {
  readonly seq: number | null;
  readonly state: S;
}

/** What is shown while `wanted` may not be there yet: the last moment that was read whole. */
export function shownOf<S>(
  wanted: number | null,
  here: S | undefined,
  before: Read<S> | null,
): Read<S> | null {
  if (here === undefined) return before;
  if (before !== null && before.seq === wanted && before.state === here) return before;
  return { seq: wanted, state: here };
}

/** `event 17`, `now`. */
export function momentWords(seq: number | null): string {
  return seq === null ? "now" : `event ${seq}`;
}

/** What is said while another moment is read than the one that is shown. */
export function readingWords(wanted: number | null, shown: number | null): string {
  return `Reading ${momentWords(wanted)} … What you see is ${momentWords(shown)}.`;
}

/** What is on the screen although another moment was asked for, and could not be read. */
export function insteadWords(shown: number | null): string {
  const what = shown === null ? "the newest that was read" : momentWords(shown);
  return `What you see is ${what}.`;
}
