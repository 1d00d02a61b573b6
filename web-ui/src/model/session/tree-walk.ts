// Where a key leads in the tree, of which only some rows were read.

import type { Span } from "./spans.ts";

/** Where a person wants to go. */
export type Goal =
  /** That row or the nearest; from a row that had not begun on to the next one that way. */
  | { readonly kind: "row"; readonly row: number; readonly way: 1 | -1 }
  /** What is around the span in that row. */
  | { readonly kind: "parent"; readonly of: Span; readonly row: number };

/** What of a goal is known. */
export type Step =
  | { readonly kind: "found"; readonly span: Span; readonly row: number }
  /** That row must be read first. */
  | { readonly kind: "unread"; readonly row: number }
  | { readonly kind: "nowhere" };

/** `undefined` for a row that was not read, `null` for one that had not begun at the moment shown. */
export type RowAt = (row: number) => Span | null | undefined;

export const FIRST: Goal = { kind: "row", row: 0, way: 1 };
export const LAST: Goal = { kind: "row", row: Number.POSITIVE_INFINITY, way: -1 };

export function walk(goal: Goal, rowAt: RowAt, count: number): Step {
  switch (goal.kind) {
    case "row":
      return rowFrom(clamped(goal.row, count), goal.way, rowAt, count);
    case "parent":
      return parentFrom(goal.of, goal.row, rowAt);
  }
}

/** The row that the next key starts from: where an unread goal is, or else what is selected. */
export function startOf(goal: Goal | null, selected: number, count: number): number {
  return goal?.kind === "row" ? clamped(goal.row, count) : selected;
}

function clamped(row: number, count: number): number {
  return Math.max(0, Math.min(row, count - 1));
}

function rowFrom(from: number, way: 1 | -1, rowAt: RowAt, count: number): Step {
  for (let row = from; row >= 0 && row < count; row += way) {
    const span = rowAt(row);
    if (span === undefined) return { kind: "unread", row };
    if (span !== null) return { kind: "found", span, row };
  }
  return { kind: "nowhere" };
}

function parentFrom(of: Span, from: number, rowAt: RowAt): Step {
  // The session is around every step, however many came before: no need to read all of them.
  if (of.depth <= 1) return rowFrom(0, 1, rowAt, 1);
  for (let row = from - 1; row >= 0; row -= 1) {
    const span = rowAt(row);
    if (span === undefined) return { kind: "unread", row };
    if (span?.id === of.parentId) return { kind: "found", span, row };
  }
  return { kind: "nowhere" };
}
