import { duration, exact } from "../words.ts";

/**
 * When the session's time is up. Once it is over no timer tells it any more, but its agent says how
 * long it had; a fork may have had less.
 */
export function deadlineWords(dueAt: number | null, agentJson: string): string {
  if (dueAt !== null) return exact(dueAt);
  const ms = deadlineOf(agentJson);
  return ms === null ? "none" : `${duration(ms)} from its beginning`;
}

function deadlineOf(agentJson: string): number | null {
  try {
    const it = JSON.parse(agentJson) as { limits?: { deadline_ms?: unknown } } | null;
    const ms = it?.limits?.deadline_ms;
    return typeof ms === "number" ? ms : null;
  } catch {
    return null;
  }
}
