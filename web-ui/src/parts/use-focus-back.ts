import { type RefObject, useEffect, useRef, useState } from "react";

function isFocusLost(): boolean {
  return document.activeElement === document.body || document.activeElement === null;
}

/**
 * For what comes and goes with the focus in it: the focus goes back to where it was, or to the page
 * when that is gone. Left alone it would fall to nobody.
 */
export function useFocusBack(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      if (!isFocusLost()) return;
      const isThere = before instanceof HTMLElement && before.isConnected;
      const to = isThere && before !== document.body ? before : document.querySelector("main");
      to?.focus();
    },
    [before],
  );
}

/** Once something is over, what had the focus may be gone: then the focus goes to what is said of it. */
export function useFocusAfter(said: RefObject<HTMLElement | null>, isOver: boolean): void {
  const wasOver = useRef(isOver);
  useEffect(() => {
    if (isOver && !wasOver.current && isFocusLost())
      (said.current ?? document.querySelector("main"))?.focus();
    wasOver.current = isOver;
  }, [said, isOver]);
}

/** Pages that came so far: the first one is the browser's to give the focus to. */
let pagesShown = 0;

/** Where a page came instead of another, the focus goes to its heading. */
export function useFocusArrived(heading: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    pagesShown += 1;
    if (pagesShown > 1 && isFocusLost()) heading.current?.focus();
  }, [heading]);
}
