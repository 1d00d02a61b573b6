// The server's services over gRPC-web, on the port that this page came from.

import { createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { AgentService } from "#proto/agents";
import { ApprovalService } from "#proto/approvals";
import { HistoryService } from "#proto/history";
import { SessionService } from "#proto/sessions";
import { link } from "../view-base.ts";

/** Longest wait for the answer of a call that is no stream. */
const TIMEOUT_MS = 20_000;

const transport = createGrpcWebTransport({
  baseUrl: link(""),
  useBinaryFormat: true,
});

export const sessionsClient = createClient(SessionService, transport);
export const approvalsClient = createClient(ApprovalService, transport);
export const agentsClient = createClient(AgentService, transport);
export const historyClient = createClient(HistoryService, transport);

/** Options of a call that is no stream: it ends with `signal` and with its deadline. */
export function within(signal?: AbortSignal): { timeoutMs: number; signal?: AbortSignal } {
  return signal === undefined ? { timeoutMs: TIMEOUT_MS } : { timeoutMs: TIMEOUT_MS, signal };
}
