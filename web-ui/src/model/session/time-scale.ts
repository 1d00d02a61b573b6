// From a time to a place between 0 and 1, with long pauses folded:
//
//   time   |--work--|..........idle..........|--work--|
//   place  |-----work-----|fold|-----work-----|
//
// A pause is folded when it is long for a person and long beside the work around it; every fold is
// equally wide, whatever it hides.

/** Shorter pauses are never folded. */
const IDLE_MIN_MS = 30_000;
/** Nor are those below this part of the work. */
const IDLE_PART = 0.05;
/** Width of a fold, as a part of the whole; all together at most half of it. */
const FOLD_WIDTH = 0.02;
const FOLDS_WIDTH_MAX = 0.5;

export interface Fold {
  readonly from: number;
  readonly to: number;
  /** Where it is drawn. */
  readonly x: number;
  readonly width: number;
}

export interface TimeScale {
  readonly from: number;
  readonly to: number;
  readonly folds: readonly Fold[];
  /** Corners of the line from time to place. */
  readonly corners: ReadonlyArray<{ readonly time: number; readonly x: number }>;
}

/** The scale of what happened at `times` (in order), from index `first` up to `end`. */
export function timeScale(times: Float64Array, first: number, end: number): TimeScale {
  const from = times[first] ?? 0;
  const to = Math.max(from, times[end - 1] ?? from);
  const pauses = idle(times, first, end);
  const hidden = pauses.reduce((sum, it) => sum + it.to - it.from, 0);
  const foldWidth = Math.min(FOLD_WIDTH, FOLDS_WIDTH_MAX / Math.max(1, pauses.length));
  const work = Math.max(1, to - from - hidden);
  const perMs = (1 - foldWidth * pauses.length) / work;
  const corners = [{ time: from, x: 0 }];
  const folds: Fold[] = [];
  let [time, x] = [from, 0];
  for (const pause of pauses) {
    x += (pause.from - time) * perMs;
    corners.push({ time: pause.from, x });
    folds.push({ ...pause, x, width: foldWidth });
    x += foldWidth;
    corners.push({ time: pause.to, x });
    time = pause.to;
  }
  corners.push({ time: Math.max(to, from + 1), x: 1 });
  return { from, to, folds, corners };
}

function idle(times: Float64Array, first: number, end: number) {
  let work = 0;
  for (let at = first + 1; at < end; at += 1) {
    const pause = (times[at] ?? 0) - (times[at - 1] ?? 0);
    if (pause > 0 && pause < IDLE_MIN_MS) work += pause;
  }
  const least = Math.max(IDLE_MIN_MS, work * IDLE_PART);
  const pauses: Array<{ from: number; to: number }> = [];
  for (let at = first + 1; at < end; at += 1) {
    const [from, to] = [times[at - 1] ?? 0, times[at] ?? 0];
    if (to - from >= least) pauses.push({ from, to });
  }
  return pauses;
}

/** Where a time lies; outside it is at the nearer end. */
export function place(scale: TimeScale, time: number): number {
  const { corners } = scale;
  let [low, high] = [0, corners.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((corners[middle]?.time ?? 0) <= time) low = middle;
    else high = middle;
  }
  const [a, b] = [corners[low], corners[high]];
  if (a === undefined || b === undefined || b.time <= a.time) return 0;
  const part = (time - a.time) / (b.time - a.time);
  return a.x + Math.min(1, Math.max(0, part)) * (b.x - a.x);
}
