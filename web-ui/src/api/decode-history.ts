// Time travel, from the wire's types to the model's.

import type {
  CompareSessionsResponse,
  FindEventsResponse,
  GetStateResponse,
  GetTimelineResponse,
} from "#proto/history";
import type { Span as WireSpan } from "#proto/sessions";
import type { ModelAccount } from "../model/account.ts";
import type { Finding } from "../model/session/found.ts";
import { type Message, message } from "../model/session/messages.ts";
import type { Span } from "../model/session/spans.ts";
import type { StripPage } from "../model/session/strip.ts";
import type { Approval, SessionRow } from "../model/types.ts";
import * as decode from "./decode.ts";

export interface OpenCall {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: string;
  readonly status: string;
  readonly attempt: number;
  readonly worker: string;
}

/** A session as it was right after an event. */
export interface State {
  readonly session: SessionRow;
  /** Somebody holds it: nothing new begins, whatever it waits for besides. */
  readonly isHeld: boolean;
  readonly openCalls: readonly OpenCall[];
  readonly openApprovals: readonly Approval[];
  readonly timers: ReadonlyArray<{ readonly name: string; readonly dueAt: number }>;
  readonly limits: {
    readonly steps: number;
    readonly stepsMax: number;
    readonly tokens: number;
    readonly tokensMax: number | null;
    readonly deadlineAt: number | null;
  };
  readonly agentJson: string;
  readonly messagesTotal: number;
  /** The last messages of the request. */
  readonly tail: readonly Message[];
  readonly promptBytes: number;
  readonly headSeq: number;
  /** What it had cost until then. */
  readonly models: readonly ModelAccount[];
}

export function state(it: GetStateResponse): State {
  if (it.session === undefined) throw new Error("the server sent no session");
  return {
    session: decode.session(it.session),
    isHeld: it.paused,
    openCalls: it.openCalls.map(({ callId, tool, arguments: args, status, attempt, worker }) => ({
      callId,
      tool,
      arguments: args,
      status,
      attempt,
      worker,
    })),
    openApprovals: it.openApprovals.map(decode.approval),
    timers: it.timers.map(({ name, dueAtMs }) => ({ name, dueAt: Number(dueAtMs) })),
    limits: {
      steps: it.limits?.steps ?? 0,
      stepsMax: it.limits?.stepsMax ?? 0,
      tokens: Number(it.limits?.tokens ?? 0n),
      tokensMax: decode.time(it.limits?.tokensMax ?? 0n),
      deadlineAt: decode.time(it.limits?.deadlineAtMs ?? 0n),
    },
    agentJson: it.agentJson,
    messagesTotal: Number(it.messagesTotal),
    tail: messages(it),
    promptBytes: Number(it.promptBytes),
    headSeq: Number(it.headSeq),
    models: (it.account?.models ?? []).map((one) => ({
      model: one.model,
      replies: one.replies,
      promptTokens: Number(one.promptTokens),
      cachedTokens: Number(one.cachedTokens),
      completionTokens: Number(one.completionTokens),
      costMicros: one.costMicros === undefined ? null : Number(one.costMicros),
    })),
  };
}

export function messages(it: GetStateResponse): Message[] {
  const first = Number(it.messagesFrom);
  return it.messagesJson.map((json, at) => {
    const origin = it.messageOrigins[at];
    return message(json, first + at, {
      seq: Number(origin?.seq ?? 0n),
      step: origin?.step ?? 0,
      callId: origin?.callId ?? "",
    });
  });
}

export function span(it: WireSpan): Span {
  return {
    id: it.spanId,
    parentId: it.parentId,
    depth: it.depth,
    kind: it.kind,
    name: it.name,
    start: Number(it.startMs),
    end: decode.time(it.endMs),
    firstSeq: Number(it.firstSeq),
    lastSeq: Number(it.lastSeq),
    status: it.status,
    detail: it.detail,
    row: it.row,
    size: it.subtreeSize,
    children: it.childCount,
    isLast: it.isLastChild,
    isFolded: it.folded,
  };
}

export function stripPage(it: GetTimelineResponse): StripPage {
  return {
    marks: it.marks,
    types: it.types,
    firstTime: Number(it.firstMs),
    gaps: it.gapsMs.map(Number),
  };
}

export interface Difference {
  readonly step: number;
  readonly what: string;
  readonly a: string | null;
  readonly b: string | null;
  readonly aBytes: number;
  readonly bBytes: number;
  readonly aSeq: number;
  readonly bSeq: number;
  readonly isDivergence: boolean;
}

export interface Comparison {
  readonly a: { readonly session: SessionRow; readonly steps: number };
  readonly b: { readonly session: SessionRow; readonly steps: number };
  readonly differences: readonly Difference[];
  readonly total: number;
}

export function comparison(it: CompareSessionsResponse): Comparison {
  const side = (side: typeof it.a) => {
    if (side?.session === undefined) throw new Error("the server sent no session");
    return { session: decode.session(side.session), steps: side.steps };
  };
  return {
    a: side(it.a),
    b: side(it.b),
    total: it.differencesTotal,
    differences: it.differences.map((one) => ({
      step: one.step,
      what: one.what,
      a: one.a ?? null,
      b: one.b ?? null,
      aBytes: Number(one.aBytes),
      bBytes: Number(one.bBytes),
      aSeq: Number(one.aSeq),
      bSeq: Number(one.bSeq),
      isDivergence: one.isDivergence,
    })),
  };
}

/** What was found before, and a part more. */
export function finding(before: Finding, it: FindEventsResponse): Finding {
  const more = it.found.map(({ seq, type, before, match, after }) => ({
    seq: Number(seq),
    type,
    before,
    match,
    after,
  }));
  return {
    found: more.length === 0 ? before.found : [...before.found, ...more],
    seq: Number(it.seq),
    head: Number(it.headSeq),
    isDone: false,
  };
}
