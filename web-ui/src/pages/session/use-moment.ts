import { useCallback, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { address, type Moment } from "../../address.ts";

/** The address follows a drag at this distance: browsers refuse to write it more often. */
const ADDRESS_AFTER_MS = 200;

/** The moment that is shown, which the address names; `null` is now. */
export function useMoment(moment: Moment): [number | null, (seq: number | null) => void] {
  const [seq, setSeq] = useState(moment.seq);
  const [, go] = useLocation();
  const timer = useRef<number | undefined>(undefined);
  // Somebody went back, or followed a link to another moment.
  useEffect(() => setSeq(moment.seq), [moment.seq]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const set = useCallback(
    (to: number | null) => {
      setSeq(to);
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(
        () => go(address.session(moment.sessionId, to), { replace: true }),
        ADDRESS_AFTER_MS,
      );
    },
    [go, moment.sessionId],
  );
  return [seq, set];
}
