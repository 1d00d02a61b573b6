// Who listens to which command. One listener for the whole page; the component that came last wins.

import { useEffect, useLayoutEffect, useRef } from "react";
import { type Command, meant } from "./table.ts";

type Handler = () => void;
type Handlers = Partial<Record<Command, Handler>>;

/** The components that listen, the last one on top. */
const listeners: Array<{ current: Handlers }> = [];

function handlerOf(command: Command): Handler | undefined {
  for (let at = listeners.length - 1; at >= 0; at -= 1) {
    const handler = listeners[at]?.current[command];
    if (handler !== undefined) return handler;
  }
  return undefined;
}

/** Whether the stroke belongs to what is being typed into, or to an open dialog. */
function isElsewhere(target: EventTarget | null, isChord: boolean): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (isChord) return false;
  return target.closest("dialog[open]") !== null || isField(target);
}

function isField(target: HTMLElement): boolean {
  return target.isContentEditable || target.matches("input, textarea, select");
}

/** Esc in a field leads to what the field is a part of, and what was written stays in it. */
function leaveField(event: KeyboardEvent): void {
  const { target } = event;
  if (event.key !== "Escape" || !(target instanceof HTMLElement) || !isField(target)) return;
  if (target.closest("dialog[open]") !== null) return;
  // A browser would empty a field of the kind that searches.
  event.preventDefault();
  target.closest<HTMLElement>("article[tabindex], main")?.focus({ preventScroll: true });
}

/** Keys with which a browser scrolls what has the focus. */
const SCROLL_KEYS = ["Home", "End", "PageUp", "PageDown"];

/** Whether the focus is in a pane that scrolls and has no rows to go to. */
function scrollsItself(target: EventTarget | null): boolean {
  let at = target instanceof HTMLElement ? target : null;
  for (; at !== null && at !== document.body; at = at.parentElement) {
    if (at.matches("[role=treegrid], [role=grid]")) return false;
    const isLonger = at.scrollHeight > at.clientHeight;
    if (isLonger && /auto|scroll/.test(getComputedStyle(at).overflowY)) return true;
  }
  return false;
}

function onKeyDown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const isChord = event.ctrlKey || event.metaKey;
  leaveField(event);
  if (isElsewhere(event.target, isChord)) return;
  if (SCROLL_KEYS.includes(event.key) && scrollsItself(event.target)) return;
  // Enter on a link or button is that link or button.
  if (
    event.key === "Enter" &&
    event.target instanceof HTMLElement &&
    event.target.matches("a, button")
  )
    return;
  const { key, ctrlKey: ctrl, metaKey: meta, altKey: alt } = event;
  for (const command of meant({ key, ctrl, meta, alt })) {
    const handler = handlerOf(command);
    if (handler === undefined) continue;
    event.preventDefault();
    handler();
    return;
  }
}

/** Listens once, for the whole page. */
export function useKeyboard(): void {
  useEffect(() => {
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}

/** Carries out these commands while the component is there. Handlers may change on every render. */
export function useKeys(handlers: Handlers): void {
  const current = useRef(handlers);
  // Before the browser takes the next key: it must go on from what is on the screen.
  useLayoutEffect(() => {
    current.current = handlers;
  });
  useEffect(() => {
    listeners.push(current);
    return () => {
      listeners.splice(listeners.indexOf(current), 1);
    };
  }, []);
}

/** Does what a key would do; for buttons of the page that have one. */
export function runCommand(command: Command): void {
  handlerOf(command)?.();
}

/** Commands that would do something now, for the palette. */
export function commandsNow(): Array<{ command: Command; run: Handler }> {
  const seen = new Map<Command, Handler>();
  for (const { current } of listeners) {
    for (const [command, handler] of Object.entries(current)) seen.set(command as Command, handler);
  }
  return [...seen].map(([command, run]) => ({ command, run }));
}
