// All keys of the viewer, in one table: what listens to the keyboard reads it, and so does the help.

/** Where a key is of use: how the help is grouped. No key means two things. */
export type Scope = "everywhere" | "list" | "session" | "approval";

interface Binding {
  /** `mod` is ⌘ on a Mac and Ctrl elsewhere. A character stands for itself, whatever Shift it needs. */
  readonly keys: readonly string[];
  readonly scope: Scope;
  readonly says: string;
}

export const BINDINGS = {
  palette: { keys: ["mod+k"], scope: "everywhere", says: "all commands" },
  help: { keys: ["?"], scope: "everywhere", says: "keys, and what they do" },
  close: { keys: ["Escape"], scope: "everywhere", says: "leave a field, then close what is open" },
  find: { keys: ["/"], scope: "everywhere", says: "find" },
  findNext: { keys: ["n"], scope: "session", says: "next event that was found" },
  findPrevious: { keys: ["N"], scope: "session", says: "previous event that was found" },
  next: { keys: ["j", "ArrowDown"], scope: "list", says: "next" },
  previous: { keys: ["k", "ArrowUp"], scope: "list", says: "previous" },
  open: { keys: ["Enter"], scope: "list", says: "open" },
  first: { keys: ["Home"], scope: "list", says: "first" },
  last: { keys: ["End"], scope: "list", says: "last; of a long list, of what was read" },
  pageOn: { keys: ["PageDown"], scope: "list", says: "a screen on" },
  pageBack: { keys: ["PageUp"], scope: "list", says: "a screen back" },
  fold: { keys: ["h", "ArrowLeft"], scope: "session", says: "fold, or go to what is around it" },
  unfold: { keys: ["l", "ArrowRight"], scope: "session", says: "unfold, or go into it" },
  eventBack: { keys: ["["], scope: "session", says: "one event back in time" },
  eventForth: { keys: ["]"], scope: "session", says: "one event on in time" },
  stepBack: { keys: ["{"], scope: "session", says: "one model call back in time" },
  stepForth: { keys: ["}"], scope: "session", says: "one model call on in time" },
  toolBack: { keys: ["("], scope: "session", says: "one tool call back in time" },
  toolForth: { keys: [")"], scope: "session", says: "one tool call on in time" },
  goTo: { keys: ["g"], scope: "session", says: "go to an event by its number" },
  live: { keys: ["."], scope: "session", says: "back to live" },
  review: { keys: ["a"], scope: "approval", says: "review what waits for you" },
  fork: { keys: ["f"], scope: "session", says: "fork from here" },
  // By name only: nothing of this may be hit by a slip of the finger.
  hold: { keys: [], scope: "session", says: "hold the session" },
  goOn: { keys: [], scope: "session", says: "let the session go on" },
  oneStep: { keys: [], scope: "session", says: "let the session do one step" },
  cancel: { keys: [], scope: "session", says: "cancel the session …" },
} as const satisfies Record<string, Binding>;

export type Command = keyof typeof BINDINGS;

export const COMMANDS = Object.keys(BINDINGS) as readonly Command[];

export const SCOPES: ReadonlyArray<readonly [Scope, string]> = [
  ["everywhere", "Everywhere"],
  ["list", "In lists and trees"],
  ["session", "In a session"],
  ["approval", "Where something waits for you"],
];

/** What of a keyboard event decides. */
export interface Stroke {
  readonly key: string;
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly alt: boolean;
}

/** The commands that a stroke may mean, in the order of the table. */
export function meant(stroke: Stroke): Command[] {
  if (stroke.alt) return [];
  const name = stroke.ctrl || stroke.meta ? `mod+${stroke.key.toLowerCase()}` : stroke.key;
  return COMMANDS.filter((it) => (BINDINGS[it].keys as readonly string[]).includes(name));
}

/** A key as it is shown: `⌘K`, `Ctrl K`, `↓`. */
export function shown(key: string, isMac: boolean): string {
  if (key.startsWith("mod+"))
    return `${isMac ? "⌘" : "Ctrl "}${key.slice("mod+".length).toUpperCase()}`;
  const arrows: Record<string, string> = {
    ArrowDown: "↓",
    ArrowUp: "↑",
    ArrowLeft: "←",
    ArrowRight: "→",
  };
  return arrows[key] ?? key;
}
