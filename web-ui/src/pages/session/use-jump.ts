import type { Virtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useState } from "react";

/**
 * Goes to the offset `to` when `key` changes. The rows there are made in the same render: a scroll
 * event comes a frame later, and until then rows would be made, and asked for, that nobody sees.
 */
export function useJump(
  lines: Virtualizer<HTMLDivElement, Element>,
  key: unknown,
  to: () => number | null,
): void {
  const [at, setAt] = useState(key);
  if (at !== key) {
    setAt(key);
    lines.scrollOffset = to() ?? lines.scrollOffset;
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each key
  useLayoutEffect(() => {
    lines.cancelScroll();
    const { scrollElement, scrollOffset } = lines;
    if (scrollElement !== null && scrollOffset !== null) scrollElement.scrollTop = scrollOffset;
  }, [key]);
}
