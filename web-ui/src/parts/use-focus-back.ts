import { useEffect, useState } from "react";

/**
 * For what comes and goes with the focus in it: the focus goes back to where it was, or to the page
 * when that is gone. Left alone it would fall to nobody.
 */
export function useFocusBack(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      if (document.activeElement !== document.body) return;
      const isThere = before instanceof HTMLElement && before.isConnected;
      const to = isThere && before !== document.body ? before : document.querySelector("main");
      to?.focus();
    },
    [before],
  );
}
