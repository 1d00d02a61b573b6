// Forks: what one would be, and making it.

import { useMutation, useQuery } from "@tanstack/react-query";
import { type DraftChange, type ForkDraft, missing } from "../model/session/fork-draft.ts";
import { historyClient, within } from "./clients.ts";
import * as decode from "./decode.ts";

/** Planning a fork reads the parent's history. */
const TIMEOUT_MS = 60_000;

export interface Hazard {
  readonly seq: number;
  readonly callId: string;
  readonly tool: string;
  readonly arguments: string;
  readonly ending: string;
  readonly resultGiven: boolean;
}

/** What the fork would be; nothing is made. */
export function useForkPlan(sessionId: string, draft: ForkDraft) {
  return useQuery({
    queryKey: ["fork", sessionId, draft],
    queryFn: async ({ signal }) => {
      const request = { ...wire(sessionId, draft), dryRun: true };
      const it = await historyClient.forkSession(request, {
        ...within(signal),
        timeoutMs: TIMEOUT_MS,
      });
      const hazards: Hazard[] = it.hazards.map((one) => ({
        seq: Number(one.seq),
        callId: one.callId,
        tool: one.tool,
        arguments: one.arguments,
        ending: one.ending,
        resultGiven: one.resultGiven,
      }));
      const { workspace, sharesWorkspace } = it;
      return { at: Number(it.atSeq), hazards, workspace, sharesWorkspace };
    },
    enabled: missing(draft) === null,
    retry: false,
    gcTime: 0,
  });
}

export function useFork(sessionId: string) {
  return useMutation({
    mutationFn: async ({ draft, key, by }: { draft: ForkDraft; key: string; by: string }) => {
      const request = { ...wire(sessionId, draft), clientKey: key, forkedBy: by };
      const it = await historyClient.forkSession(request, { timeoutMs: TIMEOUT_MS });
      if (it.session === undefined) throw new Error("the server sent no session");
      return decode.session(it.session);
    },
  });
}

function wire(sessionId: string, draft: ForkDraft) {
  return {
    sessionId,
    atSeq: BigInt(draft.at ?? 0),
    changes: draft.changes.map((it) => ({ change: change(it) })),
    title: draft.title ?? "",
    model: draft.model ?? "",
    instructions: draft.instructions ?? "",
    workspace: draft.workspace,
    paused: draft.isHeld,
  };
}

function change(it: DraftChange) {
  switch (it.kind) {
    case "result": {
      const value = { callId: it.callId, isError: it.isError, output: it.text };
      return { case: "toolResult" as const, value };
    }
    case "arguments":
      return { case: "arguments" as const, value: { callId: it.callId, arguments: it.text } };
    case "reply":
      return { case: "modelReply" as const, value: { step: it.step, content: it.text, calls: [] } };
    case "message":
      return { case: "message" as const, value: it.text };
  }
}
