import { useState } from "react";
import { followed } from "../../model/asked.ts";
import type { Approval } from "../../model/types.ts";

/**
 * The approval that a person looks at, also while it is in no list: it has left the open ones, and
 * the others were not read again yet. What was answered about it must not vanish meanwhile.
 */
export function useFollowed(
  id: string | null,
  open: readonly Approval[],
  over: readonly Approval[],
) {
  const [kept, keep] = useState<Approval | null>(null);
  const found = followed(id, open, over, kept);
  if (found !== null && found.approval !== kept) keep(found.approval);
  return found;
}
