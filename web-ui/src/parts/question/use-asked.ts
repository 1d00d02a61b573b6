import { useState } from "react";
import type { Question } from "../../model/asked.ts";

/** A question that was on the screen, and whether it still waits for an answer. */
export interface Asked {
  readonly question: Question;
  readonly isOpen: boolean;
}

/**
 * The questions that wait, and those that no longer do: who was writing an answer when somebody else
 * gave one must be told.
 */
export function useAsked(open: readonly Question[]): Asked[] {
  const [seen, setSeen] = useState(open);
  const isOpen = (it: Question) => open.some(({ callId }) => callId === it.callId);
  const added = open.filter((it) => !seen.some(({ callId }) => callId === it.callId));
  if (added.length > 0) setSeen([...seen, ...added]);
  return seen.map((question) => ({ question, isOpen: isOpen(question) }));
}
