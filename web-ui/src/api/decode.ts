// From the wire's types to the model's: the only place where both meet.

import type * as wire from "#proto/agents";
import { ApprovalDecision } from "#proto/approvals";
import { type Event, type Session, SessionStatus } from "#proto/common";
import type { Approval as WireApproval } from "#proto/sessions";
import type {
  Agent,
  Approval,
  ApprovalStatus,
  Decision,
  HistoryEvent,
  SessionRow,
  Status,
  Tool,
  Worker,
} from "../model/types.ts";

const STATUS: Record<Status, SessionStatus> = {
  pending: SessionStatus.PENDING,
  thinking: SessionStatus.THINKING,
  executing_tools: SessionStatus.EXECUTING_TOOLS,
  waiting_approval: SessionStatus.WAITING_APPROVAL,
  waiting_input: SessionStatus.WAITING_INPUT,
  sleeping: SessionStatus.SLEEPING,
  paused: SessionStatus.PAUSED,
  completed: SessionStatus.COMPLETED,
  failed: SessionStatus.FAILED,
  cancelled: SessionStatus.CANCELLED,
  limit_reached: SessionStatus.LIMIT_REACHED,
  quarantined: SessionStatus.QUARANTINED,
};

const STATUS_BACK = new Map(
  Object.entries(STATUS).map(([name, number]) => [number, name as Status] as const),
);

const DECISION: Record<Decision, ApprovalDecision> = {
  approve: ApprovalDecision.APPROVE,
  approve_for_session: ApprovalDecision.APPROVE_FOR_SESSION,
  deny: ApprovalDecision.DENY,
  happened: ApprovalDecision.HAPPENED,
  did_not_happen: ApprovalDecision.DID_NOT_HAPPEN,
  failed: ApprovalDecision.FAILED,
};

const APPROVAL_STATUSES: readonly string[] = ["open", "approved", "denied", "expired", "void"];

export function toWireStatus(status: Status): SessionStatus {
  return STATUS[status];
}

export function toWireDecision(decision: Decision): ApprovalDecision {
  return DECISION[decision];
}

/** 0 on the wire means "none". */
export function time(ms: bigint): number | null {
  return ms === 0n ? null : Number(ms);
}

export function session(it: Session): SessionRow {
  const status = STATUS_BACK.get(it.status);
  if (status === undefined) {
    throw new Error(
      `the server names a status that this page does not know (${it.status}): reload`,
    );
  }
  return {
    id: it.sessionId,
    status,
    title: it.title,
    agent: it.agent,
    agentVersion: it.agentVersion,
    labels: Object.entries(it.labels).sort(([a], [b]) => a.localeCompare(b)),
    headSeq: Number(it.headSeq),
    steps: it.step,
    usage: {
      promptTokens: Number(it.usage?.promptTokens ?? 0n),
      cachedTokens: Number(it.usage?.cachedTokens ?? 0n),
      completionTokens: Number(it.usage?.completionTokens ?? 0n),
    },
    createdAt: Number(it.createdAtMs),
    updatedAt: Number(it.updatedAtMs),
    explain: it.explain,
    parent: it.parentId === "" ? null : { id: it.parentId, seq: Number(it.parentSeq) },
  };
}

export function approval(it: WireApproval): Approval {
  if (!APPROVAL_STATUSES.includes(it.status)) {
    throw new Error(`the server names an approval's status that this page does not know: reload`);
  }
  return {
    id: it.approvalId,
    sessionId: it.sessionId,
    callId: it.callId,
    question: it.question === "what_happened" ? "what_happened" : "may_run",
    tool: it.tool,
    arguments: it.arguments,
    digest: it.actionDigest,
    rule: it.rule,
    status: it.status as ApprovalStatus,
    requestedAt: Number(it.requestedAtMs),
    expiresAt: time(it.expiresAtMs),
    decidedBy: it.decidedBy,
    decidedAt: time(it.decidedAtMs),
    reason: it.reason,
  };
}

export function event(it: Event): HistoryEvent {
  return {
    seq: Number(it.seq),
    time: Number(it.timeMs),
    type: it.type,
    schema: it.schema,
    cause: Number(it.cause),
    actor: it.actor,
    bodyJson: it.bodyJson,
  };
}

export function agent(it: wire.Agent): Agent {
  return {
    name: it.name,
    version: it.version,
    definition: it.definition,
    createdAt: Number(it.createdAtMs),
  };
}

export function tool(it: wire.Tool): Tool {
  return {
    name: it.name,
    description: it.description,
    parameters: it.parameters,
    outputSchema: it.outputSchema,
    effect: it.effect,
    timeoutMs: Number(it.timeoutMs),
    workers: it.workers,
  };
}

export function worker(it: wire.Worker): Worker {
  return {
    name: it.name,
    tools: it.tools,
    runningCalls: it.runningCalls,
    capacity: it.capacity,
    connectedAt: Number(it.connectedAtMs),
    seenAt: Number(it.seenAtMs),
    draining: it.draining,
  };
}
