import { useCallback, useEffect, useState } from "react";
import type { Span } from "../../model/session/spans.ts";
import { type Goal, type RowAt, startOf, walk } from "../../model/session/tree-walk.ts";

interface Walked {
  readonly rowAt: RowAt;
  readonly count: number;
  readonly selectedRow: number | null;
  readonly onSelect: (span: Span, row: number) => void;
}

export interface TreeWalk {
  readonly go: (goal: Goal) => void;
  /** The row that the next key starts from. */
  readonly from: number;
  /** A row on the way that must be brought into sight, so that it is read. */
  readonly unreadRow: number | null;
  /** Chooses a row that was read; where a key was leading is forgotten. */
  readonly select: (span: Span, row: number) => void;
}

/** Goes to rows of the tree, also to those that must be read first. */
export function useTreeWalk({ rowAt, count, selectedRow, onSelect }: Walked): TreeWalk {
  const [goal, setGoal] = useState<Goal | null>(null);
  const step = goal === null ? null : walk(goal, rowAt, count);
  const found = step?.kind === "found" ? step : null;
  useEffect(() => {
    if (step === null || step.kind === "unread") return;
    setGoal(null);
    if (found !== null) onSelect(found.span, found.row);
  });
  const select = useCallback(
    (span: Span, row: number) => {
      setGoal(null);
      onSelect(span, row);
    },
    [onSelect],
  );
  return {
    go: setGoal,
    from: startOf(goal, selectedRow ?? 0, count),
    unreadRow: step?.kind === "unread" ? step.row : null,
    select,
  };
}
