// What an event or a span is about: one colour and one letter each, the same everywhere.

export const FAMILIES = [
  "engine",
  "model",
  "tool",
  "wait",
  "message",
  "approval",
  "error",
] as const;

export type Family = (typeof FAMILIES)[number];

const OF_EVENT: Record<string, Family> = {
  session_created: "message",
  model_requested: "model",
  model_replied: "model",
  model_failed: "error",
  tool_scheduled: "tool",
  tool_dispatched: "tool",
  tool_finished: "tool",
  tool_lost: "error",
  tool_refused: "error",
  approval_requested: "approval",
  approval_decided: "approval",
  message_received: "message",
  timer_started: "wait",
  timer_fired: "wait",
  cancel_requested: "engine",
  pause_requested: "engine",
  resume_requested: "engine",
  override_applied: "engine",
  session_finished: "engine",
};

/** A type that a newer server may name belongs to the engine until this page knows better. */
export function familyOfEvent(type: string): Family {
  return OF_EVENT[type] ?? "engine";
}

const OF_SPAN: Record<string, Family> = {
  session: "engine",
  step: "engine",
  model_call: "model",
  tool_call: "tool",
  attempt: "engine",
  approval: "approval",
  wait: "wait",
};

export function familyOfSpan(kind: string): Family {
  return OF_SPAN[kind] ?? "engine";
}

/** `tool_finished` as a person would say it. */
export function eventWords(type: string): string {
  return type.replaceAll("_", " ");
}
