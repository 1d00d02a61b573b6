// What the server knows, in plain types: times in milliseconds since 1970, 0 made `null`.

export const STATUSES = [
  "pending",
  "thinking",
  "executing_tools",
  "waiting_approval",
  "waiting_input",
  "sleeping",
  "paused",
  "completed",
  "failed",
  "cancelled",
  "limit_reached",
  "quarantined",
] as const;

export type Status = (typeof STATUSES)[number];

export interface Usage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

/** One session as a list shows it. */
export interface SessionRow {
  readonly id: string;
  readonly status: Status;
  readonly title: string;
  readonly agent: string;
  /** 0 for a definition that was handed in with the task. */
  readonly agentVersion: number;
  readonly labels: ReadonlyArray<readonly [string, string]>;
  readonly headSeq: number;
  readonly steps: number;
  readonly usage: Usage;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly explain: string;
  readonly parent: { readonly id: string; readonly seq: number } | null;
}

export type ApprovalStatus = "open" | "approved" | "denied" | "expired" | "void";

export interface Approval {
  readonly id: string;
  readonly sessionId: string;
  readonly callId: string;
  readonly question: "may_run" | "what_happened";
  readonly tool: string;
  /** The exact arguments, JSON text. */
  readonly arguments: string;
  readonly digest: string;
  readonly rule: string;
  readonly status: ApprovalStatus;
  readonly requestedAt: number;
  readonly expiresAt: number | null;
  readonly decidedBy: string;
  readonly decidedAt: number | null;
  readonly reason: string;
}

export type Decision =
  | "approve"
  | "approve_for_session"
  | "deny"
  | "happened"
  | "did_not_happen"
  | "failed";

/** One event of a history; its content is still JSON text. */
export interface HistoryEvent {
  readonly seq: number;
  readonly time: number;
  readonly type: string;
  readonly schema: number;
  readonly cause: number;
  readonly actor: string;
  readonly bodyJson: string;
}

export interface Agent {
  readonly name: string;
  readonly version: number;
  readonly definition: string;
  readonly createdAt: number;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: string;
  readonly outputSchema: string;
  readonly effect: string;
  readonly timeoutMs: number;
  readonly workers: readonly string[];
}

export interface Worker {
  readonly name: string;
  readonly tools: readonly string[];
  readonly runningCalls: number;
  readonly capacity: number;
  readonly connectedAt: number;
  readonly seenAt: number;
  readonly draining: boolean;
}
