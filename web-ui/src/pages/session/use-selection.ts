import { useCallback, useState } from "react";
import { type SpanWindow, useMomentState, useSpansAround } from "../../api/history-queries.ts";
import type { Message } from "../../model/session/messages.ts";
import {
  callSpanId,
  modelSpanId,
  rowsThen,
  type Span,
  type Then,
} from "../../model/session/spans.ts";
import type { TreeView } from "../../model/session/tree-view.ts";

/** What a person chose. While nothing is chosen, the moment that is shown chooses. */
interface Chosen {
  /** The moment that it was chosen in: in another one nothing is chosen any more. */
  readonly of: number | null;
  /** `null` for the innermost span that the event is about. */
  readonly spanId: string | null;
  readonly seq: number;
  readonly isFromTree: boolean;
  /** Of a row of the tree: what it was, until what is around it was read. */
  readonly row?: { readonly span: Span; readonly at: number };
}

export interface Selection {
  readonly spanId: string | null;
  readonly span: Span | null;
  /** A person chose it. */
  readonly isChosen: boolean;
  /** The rows around it. */
  readonly around: SpanWindow | undefined;
  /** Why they could not be read. */
  readonly error: unknown;
  readonly retry: () => void;
  /** Its row in the tree. */
  readonly row: number | null;
  /** Rows of the tree at the moment that is shown, when it is past. */
  readonly rowsThen: number | null;
  /** The message to bring into sight. */
  readonly message: number | null;
  readonly isSelected: (message: Message) => boolean;
  /** Chooses a row of the tree. */
  readonly selectSpan: (span: Span, row: number) => void;
  readonly selectMessage: (message: Message) => void;
  readonly selectCall: (callId: string, seq: number) => void;
  /** Chooses what the event is about, in the moment `of`, which may be on its way. */
  readonly selectEvent: (seq: number, of: number | null) => void;
  readonly clear: () => void;
}

/** The one selection that tree, conversation and inspector share; asks for rows once they are wanted. */
export function useSelection(
  sessionId: string,
  view: TreeView,
  then: Then | null,
  head: number,
  isWanted: boolean,
): Selection {
  const [latest, setChosen] = useState<Chosen | null>(null);
  const of = then?.seq ?? null;
  // What is chosen while another moment is read is of the one that is on the screen until then.
  const chosen = latest?.of === of ? latest : null;
  const read = useSpansAround(sessionId, view, chosen?.seq ?? then?.seq ?? null, head, isWanted);
  const { data: around, refetch } = read;
  const atThen = useSpansAround(sessionId, view, then?.seq ?? null, head, then !== null).data;
  const named = around?.rows.findIndex((it) => it.id === chosen?.spanId) ?? -1;
  const row = around === undefined ? null : named >= 0 ? around.first + named : around.around;
  // What was read is around what was chosen before.
  const early = named < 0 && read.isPlaceholderData ? chosen?.row : undefined;
  const span = early?.span ?? around?.rows[named] ?? around?.asked ?? null;
  const spanId = chosen?.spanId ?? span?.id ?? null;
  const shown = then?.seq ?? head;
  const isChosen = chosen !== null;
  const message = useMessageOf(sessionId, chosen?.isFromTree === true ? span : null, shown);
  return {
    spanId,
    span,
    isChosen,
    around,
    error: read.error,
    retry: useCallback(() => void refetch(), [refetch]),
    row: early?.at ?? row,
    rowsThen:
      then === null || atThen === undefined ? null : rowsThen(atThen.rows, atThen.first, then),
    message,
    isSelected: useCallback((it) => isChosen && isAbout(it, spanId), [isChosen, spanId]),
    selectSpan: useCallback(
      (span, at) =>
        setChosen({ of, spanId: span.id, seq: span.firstSeq, isFromTree: true, row: { span, at } }),
      [of],
    ),
    selectMessage: useCallback(
      (it) => setChosen({ of, spanId: spanOf(it), seq: it.seq, isFromTree: false }),
      [of],
    ),
    selectCall: useCallback(
      (callId, seq) => setChosen({ of, spanId: callSpanId(callId), seq, isFromTree: false }),
      [of],
    ),
    selectEvent: useCallback(
      (seq, of) => setChosen({ of, spanId: null, seq, isFromTree: true }),
      [],
    ),
    clear: useCallback(() => setChosen(null), []),
  };
}

function spanOf(message: Message): string | null {
  if (message.callId !== "") return callSpanId(message.callId);
  return message.role === "assistant" ? modelSpanId(message.step) : null;
}

function isAbout(message: Message, spanId: string | null): boolean {
  if (spanId === null) return false;
  return spanOf(message) === spanId || (message.step > 0 && spanId === `step:${message.step}`);
}

/** Number of the message that a span ended with. */
function useMessageOf(sessionId: string, span: Span | null, shown: number): number | null {
  const seq = span === null ? 0 : Math.min(span.lastSeq, shown);
  const { data } = useMomentState(sessionId, seq, 0, span !== null);
  if (span === null || data === undefined || data.messagesTotal === 0) return null;
  if (span.kind === "session") return null;
  const own = data.tail.findLast((it) => spanOf(it) === span.id);
  return own?.number ?? data.messagesTotal - 1;
}
