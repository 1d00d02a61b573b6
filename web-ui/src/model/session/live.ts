// What is being said right now: pieces that no event holds yet.

/** Kept of each text: what comes first goes. */
const CHARS_MAX = 64 * 1024;

export interface Growing {
  readonly text: string;
  /** Characters at the beginning that are not kept, or were said before this page listened. */
  readonly isCut: boolean;
  /** What had come when the connection broke: what was said between it and `text` is not known. */
  readonly broken: string;
}

export interface Live {
  /** Nothing has begun since this page listens: what is heard first is the middle of something. */
  readonly isLate: boolean;
  readonly step: number;
  readonly attempt: number;
  readonly content: Growing;
  readonly reasoning: Growing;
  /** Output of running calls, by call. */
  readonly outputs: ReadonlyMap<string, Growing>;
}

const NOTHING: Growing = { text: "", isCut: false, broken: "" };

export const SILENT: Live = {
  isLate: true,
  step: 0,
  attempt: 0,
  content: NOTHING,
  reasoning: NOTHING,
  outputs: new Map(),
};

export interface Chunk {
  readonly kind: string;
  readonly text: string;
  readonly step: number;
  readonly attempt: number;
  readonly callId: string;
}

export function withChunk(live: Live, chunk: Chunk): Live {
  switch (chunk.kind) {
    case "content":
    case "reasoning": {
      const isSame = live.step === chunk.step && live.attempt === chunk.attempt;
      const base = isSame ? live : withoutPieces(live, "");
      const { step, attempt, kind } = chunk;
      return { ...base, step, attempt, [kind]: grown(base[kind], chunk.text, live.isLate) };
    }
    case "output": {
      const outputs = new Map(live.outputs);
      const { callId, text } = chunk;
      // Of a call whose begin was heard there is an entry already.
      outputs.set(callId, grown(outputs.get(callId) ?? NOTHING, text, !outputs.has(callId)));
      return { ...live, outputs };
    }
    case "reset":
      return { ...withoutPieces(live, chunk.callId), isLate: false };
    default:
      return live;
  }
}

function withoutPieces(live: Live, callId: string): Live {
  if (callId === "") return { ...live, content: NOTHING, reasoning: NOTHING };
  const outputs = new Map(live.outputs);
  outputs.delete(callId);
  return { ...live, outputs };
}

function grown(it: Growing, more: string, isLate: boolean): Growing {
  const text = it.text + more;
  const isCut = it.isCut || (it.text === "" && isLate);
  if (text.length <= CHARS_MAX) return { ...it, text, isCut };
  return { ...it, text: text.slice(text.length - CHARS_MAX), isCut: true };
}

/**
 * The connection broke. What came is all that is known of it until its outcome comes, and what comes
 * after it begins in the middle of something.
 */
export function withBreak(live: Live): Live {
  return {
    ...live,
    isLate: true,
    content: brokenOff(live.content),
    reasoning: brokenOff(live.reasoning),
    outputs: new Map([...live.outputs].map(([callId, it]) => [callId, brokenOff(it)])),
  };
}

function brokenOff(it: Growing): Growing {
  if (it.text === "") return it.broken === "" ? NOTHING : { ...NOTHING, broken: it.broken };
  const all = it.broken === "" ? it.text : `${it.broken}\n…\n${it.text}`;
  return { text: "", isCut: true, broken: all.slice(-CHARS_MAX) };
}

/** An event came: what it holds whole is no piece any more. */
export function withEvent(live: Live, type: string, callId: string): Live {
  switch (type) {
    case "model_requested":
    case "model_replied":
    case "model_failed":
      return { ...withoutPieces(live, ""), isLate: false };
    case "tool_scheduled":
    case "tool_dispatched":
      return { ...live, outputs: new Map(live.outputs).set(callId, NOTHING) };
    // Of what was lost the pieces are all that is known: they stay for who says what became of it.
    case "tool_finished":
      return withoutPieces(live, callId);
    case "session_finished":
      return SILENT;
    default:
      return live;
  }
}

/** Events came while nobody listened: pieces of before that they hold whole are none any more. */
export function withMissed(live: Live, types: ReadonlySet<string>): Live {
  if (types.has("session_finished")) return SILENT;
  const isOver = ["model_requested", "model_replied", "model_failed"].some((it) => types.has(it));
  return isOver ? withoutPieces(live, "") : live;
}
