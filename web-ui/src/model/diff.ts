// What changed between two texts, line by line.

import { diffLines } from "diff";

export interface DiffLine {
  readonly kind: "same" | "added" | "removed";
  readonly text: string;
}

/**
 * Changed lines above which two texts are not compared but shown as removed and added: the work grows
 * with their square.
 */
const CHANGES_MAX = 1_000;
/** Lines around a change that are kept. */
const CONTEXT = 3;
/** Fewer equal lines are shown: a word about them takes as much room. */
const GAP_MIN = 4;

/** Every line of both texts, in their order. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const changes = diffLines(before, after, { maxEditLength: CHANGES_MAX });
  if (changes === undefined) {
    return [...linesOf(before, "removed"), ...linesOf(after, "added")];
  }
  return changes.flatMap(({ value, added, removed }) =>
    linesOf(value, added ? "added" : removed ? "removed" : "same"),
  );
}

function linesOf(text: string, kind: DiffLine["kind"]): DiffLine[] {
  if (text === "") return [];
  const ended = text.endsWith("\n") ? text.slice(0, -1) : text;
  return ended.split("\n").map((line) => ({ kind, text: line }));
}

/** A run of lines that is shown, or a number of equal lines that is not. */
export type DiffBlock =
  | { readonly type: "lines"; readonly lines: readonly DiffLine[] }
  | { readonly type: "gap"; readonly count: number };

/** Folds what is the same and far from every change. */
export function folded(lines: readonly DiffLine[]): DiffBlock[] {
  const isNear = new Array<boolean>(lines.length).fill(false);
  lines.forEach((line, at) => {
    if (line.kind !== "same") isNear.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const blocks: DiffBlock[] = [];
  for (let from = 0; from < lines.length; ) {
    let to = from;
    while (to < lines.length && isNear[to] === isNear[from]) to += 1;
    if (isNear[from] || to - from < GAP_MIN)
      blocks.push({ type: "lines", lines: lines.slice(from, to) });
    else blocks.push({ type: "gap", count: to - from });
    from = to;
  }
  return blocks;
}

/** The first blocks, with at most so many lines; and how many lines are behind them. */
export function firstLines(
  blocks: readonly DiffBlock[],
  linesMax: number,
): { readonly blocks: readonly DiffBlock[]; readonly hidden: number } {
  const shown: DiffBlock[] = [];
  let [room, hidden] = [linesMax, 0];
  for (const block of blocks) {
    if (block.type === "gap") {
      if (room > 0) shown.push(block);
      continue;
    }
    const lines = block.lines.slice(0, room);
    if (lines.length > 0) shown.push({ type: "lines", lines });
    room -= lines.length;
    hidden += block.lines.length - lines.length;
  }
  return { blocks: shown, hidden };
}

/** How many lines came and went. */
export function diffSize(lines: readonly DiffLine[]): { added: number; removed: number } {
  const count = (kind: DiffLine["kind"]) => lines.filter((it) => it.kind === kind).length;
  return { added: count("added"), removed: count("removed") };
}
