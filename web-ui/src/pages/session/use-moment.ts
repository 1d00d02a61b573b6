import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { address, type Moment } from "../../address.ts";

/** The address follows a drag at this distance: browsers refuse to write it more often. */
const ADDRESS_AFTER_MS = 200;

/** A jump can be taken back with the browser's Back; a step is one of many on the way. */
export type Way = "jump" | "step";

/** The moment that is shown, which the address names; `null` is now. */
export interface MomentInUse {
  readonly seq: number | null;
  /** The same before it is rendered: keys come faster, and each goes on from the one before. */
  readonly latest: RefObject<number | null>;
  readonly set: (seq: number | null, way: Way) => void;
}

export function useMoment(moment: Moment): MomentInUse {
  const [seq, setSeq] = useState(moment.seq);
  const latest = useRef(moment.seq);
  const { isOwn, write } = useAddress(moment);
  // Somebody went back, or followed a link to another moment.
  useEffect(() => {
    if (isOwn(moment.seq)) return;
    latest.current = moment.seq;
    setSeq(moment.seq);
  }, [moment.seq, isOwn]);
  const set = useCallback(
    (to: number | null, way: Way) => {
      if (to === latest.current) return;
      latest.current = to;
      setSeq(to);
      write(to, way);
    },
    [write],
  );
  return { seq, latest, set };
}

/** What is to be written into the address. */
interface Entry {
  readonly seq: number | null;
  readonly way: Way;
}

/** Writes the moment into the address, a little later, and knows what it wrote. */
function useAddress({ sessionId }: Moment) {
  // What was written from here is no wish of anybody any more.
  const written = useRef<number | null | undefined>(undefined);
  const waiting = useRef<readonly Entry[]>([]);
  const timer = useRef<number | undefined>(undefined);
  const [, go] = useLocation();
  const settle = useCallback(() => {
    const entries = waiting.current;
    waiting.current = [];
    for (const it of entries) {
      written.current = it.seq;
      go(address.session(sessionId, it.seq), { replace: it.way === "step" });
    }
  }, [go, sessionId]);
  const forget = useCallback(() => {
    window.clearTimeout(timer.current);
    waiting.current = [];
  }, []);
  useEffect(() => forget, [forget]);
  const write = useCallback(
    (seq: number | null, way: Way) => {
      waiting.current = withEntry(waiting.current, { seq, way });
      // Not while somebody drags or clicks on: each entry renders the page anew.
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(settle, ADDRESS_AFTER_MS);
    },
    [settle],
  );
  const isOwn = useCallback(
    (seq: number | null) => {
      if (seq === written.current) return true;
      written.current = undefined;
      forget();
      return false;
    },
    [forget],
  );
  return { write, isOwn };
}

/**
 * At most a step and a jump: Back from a jump leads to the last step before it. What follows a jump at
 * once, as from a key that is held, is a part of it.
 */
function withEntry(waiting: readonly Entry[], next: Entry): readonly Entry[] {
  if (waiting.at(-1)?.way === "jump") return [...waiting.slice(0, -1), { ...next, way: "jump" }];
  return next.way === "jump" ? [...waiting, next] : [next];
}
