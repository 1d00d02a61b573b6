// The request to the model of a step, beside the one before it.

import { useQuery } from "@tanstack/react-query";
import { historyClient, sessionsClient, within } from "./clients.ts";
import * as decode from "./decode-history.ts";

const ADDED_MAX = 40;

/**
 * What the request at `seq` has more than the one of the step before. Requests only grow, so that is
 * what follows the messages that were there then.
 */
export function usePromptDiff(sessionId: string, seq: number, step: number) {
  return useQuery({
    queryKey: ["prompt", sessionId, seq],
    queryFn: async ({ signal }) => {
      const ask = (atSeq: number, from = 0, limit = 0) => {
        const window = { messagesFrom: BigInt(from), messagesLimit: limit };
        return historyClient.getState(
          { sessionId, atSeq: BigInt(atSeq), ...window },
          within(signal),
        );
      };
      const earlier = step > 1 ? await requestOf(sessionId, step - 1, signal) : null;
      const past = earlier === null ? null : decode.state(await ask(earlier));
      const before = past?.messagesTotal ?? 0;
      const answer = await ask(seq, before, ADDED_MAX);
      const now = decode.state(answer);
      return {
        before,
        total: now.messagesTotal,
        promptBytes: now.promptBytes,
        hasSameHead: past === null || past.agentJson === now.agentJson,
        added: decode.messages(answer),
      };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The event with which the model was last asked in that step. */
async function requestOf(
  sessionId: string,
  step: number,
  signal: AbortSignal,
): Promise<number | null> {
  const request = { sessionId, spanId: `model:${step}`, pageSize: 100 };
  const { events } = await sessionsClient.getSpan(request, within(signal));
  const asked = events.findLast((it) => it.type === "model_requested");
  return asked === undefined ? null : Number(asked.seq);
}

/** The exact bytes of the request of a step, from their beginning. */
export function useExactPrompt(sessionId: string, step: number, bytesMax: number) {
  return useQuery({
    queryKey: ["exact", sessionId, step, bytesMax],
    queryFn: async ({ signal }) => {
      const decoder = new TextDecoder();
      let [text, bytes, isRecorded, isAll] = ["", 0, false, true];
      for await (const piece of historyClient.getPrompt({ sessionId, step }, { signal })) {
        if (piece.recordedDigest !== "") isRecorded = piece.digest === piece.recordedDigest;
        text += decoder.decode(piece.data, { stream: true });
        bytes += piece.data.length;
        isAll = bytes < bytesMax;
        if (!isAll) break;
      }
      return { text, isRecorded, isAll };
    },
    enabled: bytesMax > 0,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}
