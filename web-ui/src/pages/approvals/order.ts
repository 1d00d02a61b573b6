// In which order a person is asked.

import type { Approval } from "../../model/types.ts";

/** What expires next comes first; of what never does, what has waited longest. */
export function byUrgency<A extends Pick<Approval, "expiresAt" | "requestedAt">>(
  open: readonly A[],
): A[] {
  const due = (it: A) => it.expiresAt ?? Number.POSITIVE_INFINITY;
  return [...open].sort((a, b) =>
    due(a) === due(b) ? a.requestedAt - b.requestedAt : due(a) < due(b) ? -1 : 1,
  );
}
