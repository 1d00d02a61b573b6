// What is being said right now: pieces that no event holds yet.

/** Kept of each text: what comes first goes. */
const CHARS_MAX = 64 * 1024;

export interface Growing {
  readonly text: string;
  /** Characters at the beginning that are not kept, or were said before this page listened. */
  readonly isCut: boolean;
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

const NOTHING: Growing = { text: "", isCut: false };

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
      const fresh = { text: "", isCut: live.isLate };
      const base =
        isSame && live[chunk.kind].text !== ""
          ? live
          : { ...(isSame ? live : withoutPieces(live, "")), [chunk.kind]: fresh };
      const { step, attempt, kind } = chunk;
      return { ...base, step, attempt, [kind]: grown(base[kind], chunk.text) };
    }
    case "output": {
      const outputs = new Map(live.outputs);
      outputs.set(
        chunk.callId,
        grown(outputs.get(chunk.callId) ?? { text: "", isCut: live.isLate }, chunk.text),
      );
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

function grown(it: Growing, more: string): Growing {
  const text = it.text + more;
  if (text.length <= CHARS_MAX) return { text, isCut: it.isCut };
  return { text: text.slice(text.length - CHARS_MAX), isCut: true };
}

/** An event came: what it holds whole is no piece any more. */
export function withEvent(live: Live, type: string, callId: string): Live {
  switch (type) {
    case "model_requested":
    case "model_replied":
    case "model_failed":
      return { ...withoutPieces(live, ""), isLate: false };
    case "tool_finished":
    case "tool_lost":
      return withoutPieces(live, callId);
    case "session_finished":
      return SILENT;
    default:
      return live;
  }
}
