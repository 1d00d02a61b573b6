import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { address, type Moment } from "../../address.ts";

/** The address follows a drag at this distance: browsers refuse to write it more often. */
const ADDRESS_AFTER_MS = 200;

/** The moment that is shown, which the address names; `null` is now. */
export interface MomentInUse {
  readonly seq: number | null;
  /** The same before it is rendered: keys come faster, and each goes on from the one before. */
  readonly latest: RefObject<number | null>;
  readonly set: (seq: number | null) => void;
}

export function useMoment(moment: Moment): MomentInUse {
  const [seq, setSeq] = useState(moment.seq);
  const latest = useRef(moment.seq);
  // What was written into the address from here is no wish of anybody any more.
  const written = useRef<number | null | undefined>(undefined);
  const [, go] = useLocation();
  const timer = useRef<number | undefined>(undefined);
  // Somebody went back, or followed a link to another moment.
  useEffect(() => {
    if (moment.seq === written.current) return;
    written.current = undefined;
    latest.current = moment.seq;
    setSeq(moment.seq);
  }, [moment.seq]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const set = useCallback(
    (to: number | null) => {
      latest.current = to;
      setSeq(to);
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(() => {
        written.current = to;
        go(address.session(moment.sessionId, to), { replace: true });
      }, ADDRESS_AFTER_MS);
    },
    [go, moment.sessionId],
  );
  return { seq, latest, set };
}
