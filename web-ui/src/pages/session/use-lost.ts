import { failure } from "../../api/failure.ts";
import { useLasting } from "./use-lasting.ts";

/** A break that is mended faster than this needs no word. */
const WAIT_MS = 1_000;

interface Asked {
  readonly error: unknown;
  readonly dataUpdatedAt: number;
}

/**
 * Since when the server is not heard, once that has lasted: its stream broke, or, where there is none
 * any more, it does not answer.
 */
export function useLost(streamLostAt: number | null, asked: Asked): number | null {
  const isSilent = asked.error !== null && failure(asked.error).kind === "unreachable";
  const lostAt = streamLostAt ?? (isSilent ? asked.dataUpdatedAt : null);
  const hasLasted = useLasting(lostAt !== null, WAIT_MS);
  return hasLasted ? lostAt : null;
}
