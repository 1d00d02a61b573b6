// What waits for a person in a session, and which of it comes first.

import { approvalSpanId, callSpanId } from "./session/spans.ts";
import type { Approval, Status } from "./types.ts";

export interface AskedCall {
  readonly callId: string;
  readonly status: string;
  readonly arguments: string;
}

export interface Question {
  readonly callId: string;
  readonly text: string;
}

/** The approvals in the order of their calls, as the session's own sentence names the first. */
export function inOrder(approvals: readonly Approval[]): Approval[] {
  return [...approvals].sort((a, b) => compareCalls(a.callId, b.callId));
}

/** `2.10` comes after `2.9`. */
function compareCalls(a: string, b: string): number {
  const [stepA = 0, callA = 0] = a.split(".").map(Number);
  const [stepB = 0, callB = 0] = b.split(".").map(Number);
  return stepA - stepB || callA - callB;
}

/** The approval that the span is about: of its call, or of the wait for the answer. */
export function chosenApproval(
  open: readonly Approval[],
  spanId: string | null,
): Approval | undefined {
  return open.find((it) => [callSpanId(it.callId), approvalSpanId(it.id)].includes(spanId ?? ""));
}

/** What the model has asked a person and was not told yet. */
export function questions(calls: readonly AskedCall[]): Question[] {
  return calls
    .filter((it) => it.status === "awaiting_answer")
    .map((it) => ({ callId: it.callId, text: questionOf(it.arguments) }))
    .sort((a, b) => compareCalls(a.callId, b.callId));
}

/** The question as text; arguments that are of another shape as they are. */
export function questionOf(argumentsJson: string): string {
  try {
    const it: unknown = JSON.parse(argumentsJson);
    if (typeof it === "object" && it !== null && "question" in it) {
      if (typeof it.question === "string") return it.question;
    }
  } catch {
    // Then the text is all there is.
  }
  return argumentsJson;
}

export interface Followed {
  readonly approval: Approval;
  /** It has left the open ones, and what became of it was not read yet. */
  readonly isSettled: boolean;
}

/** What is known of an approval: an answer counts more than an older list, and what was known stays. */
export function followed(
  id: string | null,
  open: readonly Approval[],
  over: readonly Approval[],
  before: Approval | null,
): Followed | null {
  const answered = over.find((it) => it.id === id);
  if (answered !== undefined) return { approval: answered, isSettled: false };
  const asked = open.find((it) => it.id === id);
  if (asked !== undefined) return { approval: asked, isSettled: false };
  return before !== null && before.id === id
    ? { approval: before, isSettled: before.status === "open" }
    : null;
}

interface Waiting {
  readonly session: { readonly status: Status };
  readonly isHeld: boolean;
  readonly openCalls: readonly AskedCall[];
  readonly agentJson: string;
}

/** Whether it waits for a message that no call asked for; one that is held takes it, too. */
export function takesMessage({ session, isHeld, openCalls, agentJson }: Waiting): boolean {
  if (questions(openCalls).length > 0) return false;
  if (session.status === "waiting_input") return true;
  return isHeld && session.status === "paused" && openCalls.length === 0 && talks(agentJson);
}

function talks(agentJson: string): boolean {
  try {
    const it: unknown = JSON.parse(agentJson);
    return typeof it === "object" && it !== null && "interactive" in it && it.interactive === true;
  } catch {
    return false;
  }
}
