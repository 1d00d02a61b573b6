// What the inspector says about a span, from the events that it is made of.

import type { HistoryEvent } from "../types.ts";

/** A text as an event holds it: whole, or the beginning of one that lies beside it. */
export interface Payload {
  readonly text: string;
  /** Address of the whole; empty when `text` is it. */
  readonly blob: string;
  readonly bytes: number;
}

export interface Result {
  readonly seq: number;
  readonly attempt: number;
  readonly ending: string;
  readonly output: Payload;
  /** What the tool left out of `output`. */
  readonly full: Payload | null;
  readonly durationMs: number | null;
  readonly by: string;
  readonly isLate: boolean;
}

export interface Reply {
  readonly seq: number;
  readonly content: Payload;
  readonly reasoning: Payload;
  readonly calls: ReadonlyArray<{ id: string; name: string; arguments: Payload; problem: string }>;
  readonly finish: string;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly endpoint: string;
  readonly firstTokenMs: number;
  readonly durationMs: number;
}

export interface Decided {
  readonly seq: number;
  readonly callId: string;
  readonly question: string;
  readonly rule: string;
  readonly decision: string;
  readonly by: string;
  readonly reason: string;
  readonly edited: string;
}

export interface Asked {
  readonly seq: number;
  readonly step: number;
  readonly attempt: number;
  readonly digest: string;
  readonly bytes: number;
}

export interface Details {
  /** What the call was asked with; after an edit what ran is in `approvals`. */
  readonly arguments: Payload | null;
  readonly tool: string;
  readonly problem: string;
  readonly results: readonly Result[];
  readonly approvals: readonly Decided[];
  readonly requests: readonly Asked[];
  readonly failures: ReadonlyArray<{ seq: number; attempt: number; kind: string; message: string }>;
  readonly reply: Reply | null;
  /** When the timers that were set are due. */
  readonly dueAt: readonly number[];
}

type Body = Record<string, unknown>;

/** `callId` is the call that the span is about; empty for none. */
export function details(events: readonly HistoryEvent[], callId: string): Details {
  const found = events.map((event) => ({ event, body: body(event.bodyJson) }));
  const of = (...types: string[]) => found.filter(({ event }) => types.includes(event.type));
  const replied = of("model_replied").map(({ event, body }) => reply(event.seq, body));
  const asked = replied.flatMap((it) => it.calls).find((it) => it.id === callId);
  return {
    arguments: asked?.arguments ?? null,
    tool: asked?.name ?? "",
    problem: asked?.problem ?? "",
    results: of("tool_finished", "tool_lost", "tool_refused").map(({ event, body }) =>
      result(event, body),
    ),
    approvals: of("approval_requested").map(({ event, body }) => {
      const answer = of("approval_decided").find(
        (it) => it.body["approval_id"] === body["approval_id"],
      );
      return decided(event.seq, body, answer?.event, answer?.body ?? {});
    }),
    requests: of("model_requested").map(({ event, body }) => ({
      seq: event.seq,
      step: number(body["step"]),
      attempt: number(body["attempt"]),
      digest: text(body["prompt_digest"]),
      bytes: number(body["prompt_bytes"]),
    })),
    failures: of("model_failed").map(({ event, body }) => ({
      seq: event.seq,
      attempt: number(body["attempt"]),
      kind: text(body["error"]),
      message: text(body["message"]),
    })),
    reply: callId === "" ? (replied.at(-1) ?? null) : null,
    dueAt: of("timer_started").map(({ body }) => number(body["due_at"])),
  };
}

/** A content that cannot be read has nothing to say here; the raw event shows it. */
function body(json: string): Body {
  try {
    const it: unknown = JSON.parse(json);
    return typeof it === "object" && it !== null ? (it as Body) : {};
  } catch {
    return {};
  }
}

function text(it: unknown): string {
  return typeof it === "string" ? it : it === undefined || it === null ? "" : JSON.stringify(it);
}

function number(it: unknown): number {
  return typeof it === "number" ? it : 0;
}

export function payload(it: unknown): Payload {
  if (typeof it === "object" && it !== null && "blob" in it) {
    const { blob, bytes, preview } = it as Body;
    return { text: text(preview), blob: text(blob), bytes: number(bytes) };
  }
  return { text: text(it), blob: "", bytes: text(it).length };
}

function reply(seq: number, body: Body): Reply {
  const usage = (body["usage"] ?? {}) as Body;
  const calls = Array.isArray(body["tool_calls"]) ? (body["tool_calls"] as Body[]) : [];
  return {
    seq,
    content: payload(body["content"]),
    reasoning: payload(body["reasoning"]),
    calls: calls.map((it) => ({
      id: text(it["call_id"]),
      name: text(it["name"]),
      arguments: payload(it["arguments"]),
      problem: text(it["problem"]),
    })),
    finish: text(body["finish_reason"]),
    promptTokens: number(usage["prompt_tokens"]),
    cachedTokens: number(usage["cached_tokens"]),
    completionTokens: number(usage["completion_tokens"]),
    endpoint: text(body["endpoint"]),
    firstTokenMs: number(body["first_token_ms"]),
    durationMs: number(body["duration_ms"]),
  };
}

function result(event: HistoryEvent, body: Body): Result {
  const endings: Record<string, string> = { tool_lost: "lost", tool_refused: "not run" };
  const said = body["output"] ?? body["message"] ?? body["reason"];
  return {
    seq: event.seq,
    attempt: number(body["attempt"]),
    ending: endings[event.type] ?? text(body["outcome"]),
    output: payload(said),
    full: body["full_output"] === undefined ? null : payload(body["full_output"]),
    durationMs: typeof body["duration_ms"] === "number" ? body["duration_ms"] : null,
    by: event.actor,
    isLate: body["late"] === true,
  };
}

function decided(seq: number, asked: Body, answer: HistoryEvent | undefined, body: Body): Decided {
  return {
    seq,
    callId: text(asked["call_id"]),
    question: text(asked["question"]).replaceAll("_", " "),
    rule: text(asked["rule"]),
    decision: text(body["decision"]).replaceAll("_", " "),
    by: answer?.actor ?? "",
    reason: text(body["reason"]),
    edited: text(body["arguments"]),
  };
}
