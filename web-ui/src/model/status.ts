// What a status means to the person who looks.

import type { Status } from "./types.ts";

/** The five things a status can mean; colour and shape follow from it. */
export type Tone = "running" | "needs" | "done" | "failed" | "stopped";

interface Meaning {
  readonly tone: Tone;
  readonly words: string;
  /** It will never do anything again. */
  readonly isOver: boolean;
}

const MEANINGS: Record<Status, Meaning> = {
  pending: { tone: "running", words: "pending", isOver: false },
  thinking: { tone: "running", words: "asks the model", isOver: false },
  executing_tools: { tone: "running", words: "runs tools", isOver: false },
  waiting_approval: { tone: "needs", words: "waits for approval", isOver: false },
  waiting_input: { tone: "needs", words: "waits for an answer", isOver: false },
  sleeping: { tone: "running", words: "sleeps", isOver: false },
  paused: { tone: "stopped", words: "held", isOver: false },
  completed: { tone: "done", words: "completed", isOver: true },
  failed: { tone: "failed", words: "failed", isOver: true },
  cancelled: { tone: "stopped", words: "cancelled", isOver: true },
  limit_reached: { tone: "failed", words: "limit reached", isOver: true },
  quarantined: { tone: "failed", words: "quarantined", isOver: true },
};

export function meaning(status: Status): Meaning {
  return MEANINGS[status];
}

/**
 * The parts of the sessions page, in the order in which a person reads them. `needs` is what the core
 * says that only a person can move (`Status::needs_person`).
 */
export type Section = "needs" | "running" | "rest";

export const SECTIONS: Record<Section, readonly Status[]> = {
  needs: ["waiting_approval", "waiting_input", "paused", "quarantined"],
  running: ["pending", "thinking", "executing_tools", "sleeping"],
  rest: ["completed", "failed", "cancelled", "limit_reached"],
};
