// What the pages ask for. Lists are asked for again every few seconds: the server has no stream of
// them, and a page of rows costs it a page of rows.

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ApprovalStatus, Decision, Status } from "../model/types.ts";
import { agentsClient, approvalsClient, sessionsClient, within } from "./clients.ts";
import * as decode from "./decode.ts";

const LIVE_MS = 2_000;
const SLOW_MS = 5_000;
const SESSIONS_PAGE = 100;
const APPROVALS_PAGE = 100;

/** Keys of the cache, for those who must make it forget. */
export const keys = {
  sessions: ["sessions"] as const,
  session: (id: string) => ["session", id] as const,
  approvals: ["approvals"] as const,
  agents: ["agents"] as const,
  tools: ["tools"] as const,
  workers: ["workers"] as const,
};

export interface SessionFilter {
  readonly statuses: readonly Status[];
  readonly text: string;
  readonly agent: string;
  readonly labels: ReadonlyArray<readonly [string, string]>;
}

export function useSessions(filter: SessionFilter) {
  return useInfiniteQuery({
    queryKey: [...keys.sessions, filter],
    queryFn: async ({ pageParam, signal }) => {
      const request = {
        statuses: filter.statuses.map(decode.toWireStatus),
        text: filter.text,
        agent: filter.agent,
        labels: Object.fromEntries(filter.labels),
        pageSize: SESSIONS_PAGE,
        pageToken: pageParam,
      };
      const page = await sessionsClient.listSessions(request, within(signal));
      return { rows: page.sessions.map(decode.session), next: page.nextPageToken };
    },
    initialPageParam: "",
    getNextPageParam: (page) => (page.next === "" ? null : page.next),
    enabled: filter.statuses.length > 0,
    // All pages are read again, so more of them are read less often.
    refetchInterval: (query) => LIVE_MS * (query.state.data?.pages.length ?? 1),
    placeholderData: (previous) => previous,
  });
}

/** Sessions that wait for what a person says: an answer, or a message. */
export function useAsking() {
  const asking = useSessions(ASKING);
  return { ...asking, rows: asking.data?.pages.flatMap((it) => it.rows) ?? [] };
}

const ASKING: SessionFilter = { statuses: ["waiting_input"], text: "", agent: "", labels: [] };

/** One session with what is open in it, as it is now. */
export function useSession(id: string) {
  return useQuery({
    queryKey: keys.session(id),
    queryFn: async ({ signal }) => {
      const it = await sessionsClient.getSession({ sessionId: id }, within(signal));
      if (it.session === undefined) throw new Error("the server sent no session");
      return {
        session: decode.session(it.session),
        openCalls: it.openCalls,
        openApprovals: it.openApprovals.map(decode.approval),
        owner: it.owner,
        ownership: it.ownership,
        wakesAt: decode.time(it.wakesAtMs),
        answer: it.answer,
        agentJson: it.agentJson,
        isHeld: it.paused,
      };
    },
    refetchInterval: LIVE_MS,
  });
}

/** What is no longer open. */
export const ANSWERED: readonly ApprovalStatus[] = ["approved", "denied", "expired", "void"];

/** Approvals of all sessions, or of one. */
export function useApprovals(statuses: readonly ApprovalStatus[], sessionId = "") {
  return useInfiniteQuery({
    queryKey: [...keys.approvals, statuses, sessionId],
    queryFn: async ({ pageParam, signal }) => {
      const pages = { pageSize: APPROVALS_PAGE, pageToken: pageParam };
      const request = { statuses: [...statuses], sessionId, ...pages };
      const page = await approvalsClient.listApprovals(request, within(signal));
      const rows = page.approvals.map(decode.approval);
      return { rows, titles: page.sessionTitles, next: page.nextPageToken };
    },
    initialPageParam: "",
    getNextPageParam: (page) => (page.next === "" ? null : page.next),
    refetchInterval: LIVE_MS,
    placeholderData: (previous) => previous,
  });
}

export interface DecideRequest {
  readonly approvalId: string;
  readonly decision: Decision;
  /** Digest and tool of the action that was on the screen. */
  readonly digest: string;
  readonly tool: string;
  readonly decidedBy: string;
  readonly reason?: string;
  /** JSON object to run instead of the proposed arguments. */
  readonly arguments?: string;
  /** What happened, for `happened`. */
  readonly output?: string;
}

export function useDecide() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: async (request: DecideRequest) => {
      const answer = await approvalsClient.decideApproval(
        {
          approvalId: request.approvalId,
          decision: decode.toWireDecision(request.decision),
          actionDigest: request.digest,
          tool: request.tool,
          decidedBy: request.decidedBy,
          reason: request.reason ?? "",
          arguments: request.arguments ?? "",
          output: request.output ?? "",
        },
        within(),
      );
      if (answer.approval === undefined) throw new Error("the server sent no approval");
      return { approval: decode.approval(answer.approval), unchanged: answer.unchanged };
    },
    // Also after a failure: somebody else was faster, mostly, and what they said is to be seen.
    onSettled: (_answer, _error, request) => {
      const sessionId = request.approvalId.split(".")[0] ?? "";
      void cache.invalidateQueries({ queryKey: keys.approvals });
      void cache.invalidateQueries({ queryKey: keys.sessions });
      void cache.invalidateQueries({ queryKey: keys.session(sessionId) });
    },
  });
}

export function useAgents() {
  return useQuery({
    queryKey: keys.agents,
    queryFn: async ({ signal }) =>
      (await agentsClient.listAgents({}, within(signal))).agents.map(decode.agent),
    refetchInterval: SLOW_MS,
  });
}

export function useAgent(name: string, version: number) {
  return useQuery({
    queryKey: [...keys.agents, name, version],
    queryFn: async ({ signal }) => {
      const { agent } = await agentsClient.getAgent({ name, version }, within(signal));
      if (agent === undefined) throw new Error("the server sent no agent");
      return decode.agent(agent);
    },
    enabled: name !== "",
  });
}

export function useTools() {
  return useQuery({
    queryKey: keys.tools,
    queryFn: async ({ signal }) =>
      (await agentsClient.listTools({}, within(signal))).tools.map(decode.tool),
    refetchInterval: SLOW_MS,
  });
}

export function useWorkers() {
  return useQuery({
    queryKey: keys.workers,
    queryFn: async ({ signal }) =>
      (await agentsClient.listWorkers({}, within(signal))).workers.map(decode.worker),
    refetchInterval: LIVE_MS,
  });
}

export interface CreateRequest {
  readonly task: string;
  readonly agent: string;
  readonly agentVersion: number;
  readonly title: string;
  readonly labels: ReadonlyArray<readonly [string, string]>;
  readonly workspace: string;
  readonly paused: boolean;
  readonly submittedBy: string;
  /** The same key never starts a second session, however often it is sent. */
  readonly clientKey: string;
}

export function useCreateSession() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: async (request: CreateRequest) => {
      const wire = { ...request, labels: Object.fromEntries(request.labels) };
      const answer = await sessionsClient.createSession(wire, within());
      if (answer.session === undefined) throw new Error("the server sent no session");
      return decode.session(answer.session);
    },
    onSuccess: () => void cache.invalidateQueries({ queryKey: keys.sessions }),
  });
}
