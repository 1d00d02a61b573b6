// What can be otherwise in a fork from a moment, with what it was there.

import type { ChangeKind, DraftChange } from "./fork-draft.ts";
import { gist, type Message } from "./messages.ts";
import { type Strip, typeAt } from "./strip.ts";

/** A session at the moment that is shown. */
export interface Moment {
  readonly tail: readonly Message[];
  readonly openCalls: ReadonlyArray<{
    readonly callId: string;
    readonly tool: string;
    readonly arguments: string;
  }>;
  readonly agentJson: string;
}

export interface CallOffer {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: string;
  /** What the model was shown of it; empty while it is open. */
  readonly result: string;
}

export interface ReplyOffer {
  /** 0 for the one that is awaited. */
  readonly step: number;
  readonly content: string;
}

/** The newest of each kind comes first. */
export interface Offers {
  readonly results: readonly CallOffer[];
  readonly arguments: readonly CallOffer[];
  readonly replies: readonly ReplyOffer[];
  /** All that there is: nothing else fits. */
  readonly isAll: boolean;
}

/**
 * At a moment, what is open there; `at` is `null` where the server finds the moment from the changes:
 * then all that was said and done, as far back as it was read.
 */
export function offersAt(moment: Moment, strip: Strip, at: number | null): Offers {
  if (at === null) {
    const calls = callsOf(moment);
    return { results: calls, arguments: calls, replies: repliesOf(moment.tail), isAll: false };
  }
  const open = moment.openCalls.map((it) => ({ ...it, result: "" })).reverse();
  return {
    results: open,
    // Once anything is decided about them, they are as they are.
    arguments: typeAt(strip, at) === "model_replied" ? open : [],
    replies: isAwaited(strip, at) ? [{ step: 0, content: "" }] : [],
    isAll: true,
  };
}

function callsOf({ tail, openCalls }: Moment): CallOffer[] {
  const results = new Map(tail.map((it) => [it.callId, it.text]));
  const said = tail.flatMap((it) =>
    it.role === "assistant"
      ? it.calls.map((call, at) => ({
          callId: `${it.step}.${at + 1}`,
          tool: call.name,
          arguments: call.arguments,
        }))
      : [],
  );
  const known = new Map([...said, ...openCalls].map((it) => [it.callId, it]));
  return [...known.values()]
    .map((it) => ({ ...it, result: results.get(it.callId) ?? "" }))
    .reverse();
}

function repliesOf(tail: readonly Message[]): ReplyOffer[] {
  return tail
    .filter((it) => it.role === "assistant" && it.step > 0)
    .map((it) => ({ step: it.step, content: it.text }))
    .reverse();
}

const ASKED = "model_requested";
const SETTLED = ["model_replied", "model_failed"];

/** Whether the model had been asked then and had not answered. */
function isAwaited(strip: Strip, at: number): boolean {
  for (let seq = at; seq >= 1; seq -= 1) {
    const type = typeAt(strip, seq);
    if (type === ASKED) return true;
    if (SETTLED.includes(type)) return false;
  }
  return false;
}

/** Kinds of change that fit. Somebody can always say something. */
export function kindsOf(offers: Offers): ChangeKind[] {
  const kinds: Array<[ChangeKind, boolean]> = [
    ["result", offers.results.length > 0],
    ["arguments", offers.arguments.length > 0],
    ["reply", offers.replies.length > 0],
    ["message", true],
  ];
  return kinds.filter(([, fits]) => fits).map(([kind]) => kind);
}

/** A change of that kind to begin with: what there was, of the named call or the newest. */
export function begun(kind: ChangeKind, offers: Offers, named = ""): DraftChange {
  const change = { kind, callId: named, step: 0, isError: false, text: "" };
  switch (kind) {
    case "result": {
      const call = callIn(offers.results, named);
      return call === undefined ? change : { ...change, callId: call.callId, text: call.result };
    }
    case "arguments": {
      const call = callIn(offers.arguments, named);
      return call === undefined ? change : { ...change, callId: call.callId, text: call.arguments };
    }
    case "reply": {
      const [newest] = offers.replies;
      return { ...change, callId: "", step: newest?.step ?? 0, text: newest?.content ?? "" };
    }
    case "message":
      return { ...change, callId: "" };
  }
}

function callIn(offers: readonly CallOffer[], named: string): CallOffer | undefined {
  return named === "" ? offers[0] : offers.find((it) => it.callId === named);
}

/** `3.1 shell: git push`: a call among others. */
export function callWords(call: CallOffer): string {
  const said = gist(call.arguments);
  return said === "" ? `${call.callId} ${call.tool}` : `${call.callId} ${call.tool}: ${said}`;
}

/** Model and instructions that hold at a moment; empty for what the definition does not say. */
export function agentOf(agentJson: string): { model: string; instructions: string } {
  const text = (it: unknown) => (typeof it === "string" ? it : "");
  try {
    const it = JSON.parse(agentJson) as { model?: { name?: unknown }; instructions?: unknown };
    return { model: text(it.model?.name), instructions: text(it.instructions) };
  } catch {
    return { model: "", instructions: "" };
  }
}
