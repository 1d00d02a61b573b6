import { useEffect, useState } from "react";
import type { State } from "../../api/decode-history.ts";
import { failure } from "../../api/failure.ts";
import { useMomentState, useSpansAround } from "../../api/history-queries.ts";
import { type Read, shownOf } from "../../model/session/shown.ts";
import type { TreeView } from "../../model/session/tree-view.ts";
import { useLasting } from "./use-lasting.ts";

/** A moment that comes faster than this needs no word. */
const WAIT_MS = 150;

export interface Shown {
  /** What is on the screen; `null` while nothing was read. */
  readonly shown: Read<State> | null;
  /** Another moment was asked for some time ago and is not there. */
  readonly isReading: boolean;
  /** Why the moment that was asked for is not there, or not as new as it should be. */
  readonly error: unknown;
  readonly retry: () => void;
}

/** The moment `wanted`, or the one that is shown until all of it was read. */
export function useShown(
  sessionId: string,
  view: TreeView,
  wanted: number | null,
  head: number,
): Shown {
  const state = useMomentState(sessionId, wanted, head, true);
  const isPast = wanted !== null;
  const rows = useSpansAround(sessionId, view, wanted, head, isPast);
  const hasState = state.data !== undefined && !state.isPlaceholderData;
  // Of now the newest messages are there first, the tree of a long session later.
  const hasRows = !isPast || (rows.data !== undefined && !rows.isPlaceholderData);
  const [before, keep] = useState<Read<State> | null>(null);
  const shown = shownOf(wanted, hasState && hasRows ? state.data : undefined, before);
  if (shown !== before) keep(shown);
  const isBehind = shown !== null && shown.seq !== wanted;
  const error = state.error ?? (isPast ? rows.error : null);
  return {
    shown,
    isReading: useLasting(isBehind && error === null, WAIT_MS),
    error,
    retry: () => {
      if (!hasState || state.error !== null) void state.refetch();
      if (isPast && !hasRows) void rows.refetch();
    },
  };
}

/** Tries again by itself what a server that is back can answer; `seenAt` tells when it answered. */
export function useRetried({ error, retry }: Shown, seenAt: number): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each sign of life
  useEffect(() => {
    if (error !== null && failure(error).kind === "unreachable") retry();
  }, [seenAt]);
}
