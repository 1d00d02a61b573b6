// Buttons that decide something count a press only once they have stood in their place for a moment:
// the second click of a double click must not decide what came up under the mouse meanwhile.

import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { isArmed, type Standing, standing } from "../model/arming.ts";

/** How often it is looked whether they have moved. */
const LOOK_EVERY_MS = 100;

export interface Arming {
  /** Whether they are shown as buttons that can be pressed. */
  readonly isArmed: boolean;
  /** Whether the press that is going on was begun late enough. */
  readonly mayAct: () => boolean;
}

/** Watches the place of `element`, and begins anew when `what` it decides is another thing. */
export function useArmed(element: RefObject<HTMLElement | null>, what: string): Arming {
  const stands = useRef<Standing | null>(null);
  const pressed = usePress();
  const [isShown, setShown] = useState(false);
  const look = useCallback(() => {
    const it = element.current;
    if (it !== null) stands.current = standing(stands.current, placeOf(it), performance.now());
  }, [element]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another thing is there since now
  useEffect(() => {
    stands.current = null;
    const see = () => {
      look();
      setShown(isArmed(stands.current, performance.now()));
    };
    see();
    const timer = window.setInterval(see, LOOK_EVERY_MS);
    return () => window.clearInterval(timer);
  }, [what, look]);
  const mayAct = () => {
    look();
    return isArmed(stands.current, pressed.current ?? performance.now());
  };
  return { isArmed: isShown, mayAct };
}

/** Where it lies on its page: scrolling is the person's own doing, and no move. */
function placeOf(element: HTMLElement): { left: number; top: number } {
  let { left, top } = element.getBoundingClientRect();
  for (let around = element.parentElement; around !== null; around = around.parentElement) {
    left += around.scrollLeft;
    top += around.scrollTop;
  }
  return { left, top };
}

/** When the press that is going on was begun; nothing while none is. */
function usePress(): RefObject<number | null> {
  const since = useRef<number | null>(null);
  useEffect(() => {
    const begin = (event: Event) => {
      // A key that repeats was pressed before this listened.
      const isOld = event instanceof KeyboardEvent && event.repeat;
      since.current ??= isOld ? 0 : performance.now();
    };
    const end = () => {
      // The click comes after the button was let go.
      window.setTimeout(() => {
        since.current = null;
      });
    };
    const begins = ["pointerdown", "keydown"] as const;
    const ends = ["pointerup", "pointercancel", "keyup"] as const;
    for (const it of begins) window.addEventListener(it, begin, true);
    for (const it of ends) window.addEventListener(it, end, true);
    // Of the window itself: what is let go elsewhere is not heard here.
    window.addEventListener("blur", end);
    return () => {
      for (const it of begins) window.removeEventListener(it, begin, true);
      for (const it of ends) window.removeEventListener(it, end, true);
      window.removeEventListener("blur", end);
    };
  }, []);
  return since;
}
