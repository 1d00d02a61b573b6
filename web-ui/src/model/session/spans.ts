// Rows of the tree: spans as the server lists them, and as they stood at a past moment.

export interface Span {
  readonly id: string;
  readonly parentId: string;
  readonly depth: number;
  readonly kind: string;
  readonly name: string;
  readonly start: number;
  /** `null` while it is open. */
  readonly end: number | null;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly status: string;
  readonly detail: string;
  /** Rows before it in the whole tree. */
  readonly row: number;
  /** Rows of its subtree, itself among them; `null` at a past moment, for what was not over then. */
  readonly size: number | null;
  readonly children: number;
  readonly isLast: boolean;
  /** What is below it is left out. */
  readonly isFolded: boolean;
}

/** A moment of the past: right after that event. */
export interface Then {
  readonly seq: number;
  readonly time: number;
  /** Arguments of the calls that were open, by the number of the call. */
  readonly calls: ReadonlyMap<string, string>;
}

/**
 * The span as it stood then; `null` when it had not begun. What later events may have said of it is
 * left out. `next` is the row below it, where that is known.
 */
export function asOf(span: Span, then: Then | null, next?: Span): Span | null {
  if (then === null || span.lastSeq <= then.seq) return span;
  if (span.firstSeq > then.seq) return null;
  const children = isEmptyThen(span, then, next) ? 0 : span.children;
  const known = { ...span, lastSeq: then.seq, detail: "", size: null, children };
  // A late report touches a span that had ended long before.
  if (span.end !== null && span.end < then.time) return known;
  const detail = then.calls.get(callIdOf(span)) ?? "";
  return { ...known, end: null, status: "open", detail };
}

/** Whether all that is below it began later: the first one did. */
function isEmptyThen(span: Span, then: Then, next: Span | undefined): boolean {
  return next?.parentId === span.id && next.firstSeq > then.seq;
}

/**
 * How many rows there were at a moment: `rows` begin at row `first` and hold the span that the event
 * is about. Steps come one after the other, so what follows the first later step is later, too.
 */
export function rowsThen(rows: readonly Span[], first: number, then: Then): number {
  const later = rows.findIndex((it) => it.depth <= 1 && it.firstSeq > then.seq);
  const known = later === -1 ? rows : rows.slice(0, later);
  const last = known.findLastIndex((it) => it.firstSeq <= then.seq);
  return first + last + 1;
}

/** What a person calls a span's state, where there is more to say than "ok". */
export function statusWords(span: Span): string {
  if (span.status === "open") return OPEN_WORDS[span.kind] ?? "open";
  return span.status === "ok" ? "" : span.status.replaceAll("_", " ");
}

const OPEN_WORDS: Record<string, string> = {
  model_call: "running",
  attempt: "running",
  approval: "waits",
  wait: "waits",
};

/** Whether it went wrong or was not let through. */
export function isBad(status: string): boolean {
  return ["error", "lost", "denied", "expired", "cancelled", "limit_reached"].includes(status);
}

/** The span that an event or message of a step is about. */
export function modelSpanId(step: number): string {
  return `model:${step}`;
}

export function callSpanId(callId: string): string {
  return `call:${callId}`;
}

/** The id of an approval has its number behind that of the session. */
export function approvalSpanId(approvalId: string): string {
  return `approval:${approvalId.slice(approvalId.indexOf(".") + 1)}`;
}

/** The number of the call that a span is, for example `3.1`; empty for what is no call. */
export function callIdOf(span: Pick<Span, "id">): string {
  return /^call:(\d+\.\d+)$/.exec(span.id)?.[1] ?? "";
}
