// When an action may be decided: not by a press that was meant for what stood in its place before.

/** So long an action must have stood where it is before a press on it counts. */
export const ARMED_AFTER_MS = 600;

/** Smaller moves are rounding. */
const MOVE_MIN = 1;

/** Where something stands on the page, and since when. */
export interface Standing {
  readonly left: number;
  readonly top: number;
  readonly since: number;
}

/** What is known after a look at `now`: it stands there since `before`, or since this look. */
export function standing(
  before: Standing | null,
  { left, top }: { readonly left: number; readonly top: number },
  now: number,
): Standing {
  const isSame =
    before !== null &&
    Math.abs(before.left - left) < MOVE_MIN &&
    Math.abs(before.top - top) < MOVE_MIN;
  return isSame ? before : { left, top, since: now };
}

/** Whether a press that began at `pressed` was meant for it. */
export function isArmed(it: Standing | null, pressed: number): boolean {
  return it !== null && pressed - it.since >= ARMED_AFTER_MS;
}
