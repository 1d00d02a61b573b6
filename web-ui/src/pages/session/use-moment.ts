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
interface Pending {
  readonly seq: number | null;
  readonly way: Way;
  readonly timer: number;
}

/** Writes the moment into the address, a little later, and knows what it wrote. */
function useAddress({ sessionId }: Moment) {
  // What was written from here is no wish of anybody any more.
  const written = useRef<number | null | undefined>(undefined);
  const pending = useRef<Pending | null>(null);
  const [, go] = useLocation();
  const settle = useCallback(() => {
    const it = pending.current;
    if (it === null) return;
    window.clearTimeout(it.timer);
    pending.current = null;
    written.current = it.seq;
    go(address.session(sessionId, it.seq), { replace: it.way === "step" });
  }, [go, sessionId]);
  const forget = useCallback(() => {
    window.clearTimeout(pending.current?.timer);
    pending.current = null;
  }, []);
  useEffect(() => forget, [forget]);
  const write = useCallback(
    (seq: number | null, way: Way) => {
      // Back from a jump leads to the last step before it.
      if (way === "jump") settle();
      // Where a jump led first is passed by the steps that follow at once, and is a jump still.
      const isJump = way === "jump" || pending.current?.way === "jump";
      forget();
      const timer = window.setTimeout(settle, ADDRESS_AFTER_MS);
      pending.current = { seq, way: isJump ? "jump" : "step", timer };
    },
    [settle, forget],
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
