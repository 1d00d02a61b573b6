// A text in the events of a session: the server looks for it and says what it found on the way.

import { useEffect, useState } from "react";
import { type Finding, NOTHING_FOUND } from "../model/session/found.ts";
import { historyClient } from "./clients.ts";
import * as decode from "./decode-history.ts";

/** What is being typed is not looked for. */
const TYPED_AFTER_MS = 150;
/** The page is told at most this often. */
const TELL_EVERY_MS = 100;

export interface Search extends Finding {
  readonly error: unknown;
  /** Goes on behind what was looked at. */
  readonly goOn: () => void;
}

/** Looks for `text`; an empty one is nowhere. */
export function useFind(sessionId: string, text: string): Search {
  const [from, setFrom] = useState({ text, after: NOTHING_FOUND });
  const [finding, setFinding] = useState<Finding>(NOTHING_FOUND);
  const [error, setError] = useState<unknown>(null);
  const before = from.text === text ? from.after : NOTHING_FOUND;
  useEffect(() => {
    setFinding({ ...before, isDone: text === "" });
    setError(null);
    if (text === "") return;
    const stop = new AbortController();
    const timer = window.setTimeout(() => {
      look(sessionId, text, before, stop.signal, setFinding).catch((reason: unknown) => {
        if (!stop.signal.aborted) setError(reason);
      });
    }, TYPED_AFTER_MS);
    return () => {
      window.clearTimeout(timer);
      stop.abort();
    };
  }, [sessionId, text, before]);
  return { ...finding, error, goOn: () => setFrom({ text, after: finding }) };
}

async function look(
  sessionId: string,
  text: string,
  before: Finding,
  signal: AbortSignal,
  tell: (finding: Finding) => void,
): Promise<void> {
  let now = before;
  let toldAt = 0;
  const request = { sessionId, text, afterSeq: BigInt(before.seq) };
  for await (const part of historyClient.findEvents(request, { signal })) {
    now = decode.finding(now, part);
    if (performance.now() - toldAt < TELL_EVERY_MS) continue;
    toldAt = performance.now();
    tell(now);
  }
  tell({ ...now, isDone: true });
}
