// What the session page asks for: windows, never the whole session.

import {
  keepPreviousData,
  queryOptions,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { Message } from "../model/session/messages.ts";
import type { Span } from "../model/session/spans.ts";
import { type TreeView, viewKey } from "../model/session/tree-view.ts";
import type { SessionRow } from "../model/types.ts";
import { historyClient, sessionsClient, within } from "./clients.ts";
import * as decodeRow from "./decode.ts";
import * as decode from "./decode-history.ts";
import { failure } from "./failure.ts";
import { createFeed, type FeedView } from "./feed.ts";
import { useKept } from "./kept.ts";
import { keys } from "./queries.ts";

export const MESSAGES_PAGE = 40;
/** As many rows as a tall window shows: more would be waited for, and read in one go. */
export const SPANS_PAGE = 96;
const EVENTS_PAGE = 50;
const LINEAGE_MAX = 50;
/** How long an answer is kept that nobody looks at: those for now are many while a session runs. */
const NOW_KEPT_MS = 2_000;
const PAST_KEPT_MS = 60_000;
/** A replay reads the whole history. */
const REPLAY_TIMEOUT_MS = 120_000;

/** The strip of a session, what is being said in it, and whether this page still hears it. */
export function useFeed(sessionId: string, isWanted: boolean): FeedView {
  const feed = useMemo(() => createFeed(sessionId), [sessionId]);
  return useSyncExternalStore(isWanted ? feed.subscribe : toNobody, feed.view);
}

function toNobody(): () => void {
  return () => undefined;
}

/**
 * The session right after an event, and the newest messages. For now, `at` is `null`: nothing need be
 * known of the session to ask for it, and it is asked for again when the head went on.
 */
export function useMomentState(
  sessionId: string,
  at: number | null,
  head: number,
  isWanted: boolean,
) {
  const query = useQuery({
    ...momentState(sessionId, at),
    placeholderData: keepPreviousData,
    enabled: isWanted,
  });
  useFollowing(query, at === null ? head : 0);
  return query;
}

/** What [`useMomentState`] asks. */
export function momentState(sessionId: string, at: number | null) {
  return queryOptions({
    queryKey: ["state", sessionId, at ?? "now"],
    queryFn: async ({ signal }) => {
      const window = { messagesFrom: BigInt(-MESSAGES_PAGE), messagesLimit: MESSAGES_PAGE };
      const request = { sessionId, atSeq: BigInt(at ?? 0), ...window };
      return decode.state(await historyClient.getState(request, within(signal)));
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: PAST_KEPT_MS,
  });
}

interface Followed {
  readonly data: { readonly headSeq: number } | undefined;
  readonly isPlaceholderData: boolean;
  readonly isFetching: boolean;
  readonly refetch: () => unknown;
}

/** Asks again when the answer was given before the event `head`, once for each. */
function useFollowing({ data, isPlaceholderData, isFetching, refetch }: Followed, head: number) {
  const isBehind = data !== undefined && !isPlaceholderData && data.headSeq < head;
  const asked = useRef(0);
  useEffect(() => {
    if (!isBehind || isFetching || asked.current === head) return;
    asked.current = head;
    void refetch();
  }, [isBehind, isFetching, head, refetch]);
}

/**
 * Pages of messages to the model. They only grow at their end, so that a page is the same at every
 * moment that has it; `total` is how many there are at the moment that is shown, and `at` a moment
 * that has them.
 */
export function useMessages(
  sessionId: string,
  pages: readonly number[],
  total: number,
  at: number,
): { messages: ReadonlyMap<number, Message>; error: unknown; retry: () => void } {
  const read = useQueries({
    queries: pages.map((page) => {
      const from = page * MESSAGES_PAGE;
      const count = Math.min(MESSAGES_PAGE, total - from);
      return {
        queryKey: ["messages", sessionId, page, count, at] as const,
        queryFn: async ({ signal }: { signal: AbortSignal }) => {
          const messagesFrom = BigInt(from);
          const request = { sessionId, atSeq: BigInt(at), messagesFrom, messagesLimit: count };
          return decode.messages(await historyClient.getState(request, within(signal)));
        },
        enabled: count > 0,
        staleTime: Number.POSITIVE_INFINITY,
        gcTime: PAST_KEPT_MS,
      };
    }),
    combine: (results) => ({
      found: new Map(results.flatMap((it) => it.data ?? []).map((it) => [it.number, it])),
      ...troubles(results),
    }),
  });
  const scope = `${sessionId} ${at}`;
  const messages = useKept(read.found, scope, ...rangeOf(pages, MESSAGES_PAGE));
  return { messages, error: read.error, retry: read.retry };
}

/** What went wrong with some of several requests. */
function troubles(results: ReadonlyArray<{ error: unknown; refetch: () => unknown }>) {
  const failed = results.filter((it) => it.error !== null);
  return {
    error: failed[0]?.error ?? null,
    retry: () => {
      for (const it of failed) void it.refetch();
    },
  };
}

/** The entries of pages that follow each other. */
function rangeOf(pages: readonly number[], size: number): [number, number] {
  return [(pages[0] ?? 0) * size, ((pages.at(-1) ?? -1) + 1) * size];
}

export interface SpanWindow {
  readonly rows: readonly Span[];
  readonly first: number;
  readonly total: number;
  /** Row of the span that was asked for. */
  readonly around: number;
  /** That span; the session may stand far before the rows. `null` when none was asked for. */
  readonly asked: Span | null;
  /** Head of the session when they were read. */
  readonly headSeq: number;
  /** `viewKey` of what they are rows of. */
  readonly view: string;
}

async function spanWindow(
  sessionId: string,
  view: TreeView,
  from: { row: number } | { aroundSeq: number | null },
  limit: number,
  signal: AbortSignal,
): Promise<SpanWindow> {
  const depth = view.depthMax === null ? {} : { depthMax: view.depthMax };
  const place = "row" in from ? { fromRow: from.row } : placeAround(from.aroundSeq);
  const folds = {
    collapsed: [...view.collapsed],
    expanded: [...view.expanded],
    foldRetried: true,
  };
  const request = { sessionId, limit, ...folds, ...depth, ...place };
  const it = await sessionsClient.listSpans(request, within(signal));
  const asked = it.spans[it.aroundRow - it.firstRow] ?? it.ancestors[it.aroundRow];
  return {
    rows: it.spans.map(decode.span),
    asked: asked === undefined ? null : decode.span(asked),
    first: it.firstRow,
    total: it.totalRows,
    around: it.aroundRow,
    headSeq: Number(it.headSeq),
    view: viewKey(view),
  };
}

function placeAround(seq: number | null) {
  return seq === null ? { aroundLast: true } : { aroundSeq: BigInt(seq) };
}

/** Pages of rows of the tree as it is now. `head` tells when they may have changed. */
export function useSpanPages(
  sessionId: string,
  view: TreeView,
  pages: readonly number[],
  head: number,
): { rows: ReadonlyMap<number, Span>; total: number | null; error: unknown; retry: () => void } {
  const read = useQueries({
    queries: pages.map((page) => ({
      queryKey: ["spans", sessionId, view, page, head] as const,
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        spanWindow(sessionId, view, { row: page * SPANS_PAGE }, SPANS_PAGE, signal),
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: NOW_KEPT_MS,
    })),
    combine: (results) => {
      const found = new Map<number, Span>();
      for (const { data } of results) {
        data?.rows.forEach((row, at) => {
          found.set(data.first + at, row);
        });
      }
      const total = results.find((it) => it.data !== undefined)?.data?.total ?? null;
      return { found, total, ...troubles(results) };
    },
  });
  const scope = `${sessionId} ${viewKey(view)}`;
  const rows = useKept(read.found, scope, ...rangeOf(pages, SPANS_PAGE));
  const [kept, keep] = useState({ scope, total: read.total });
  if (kept.scope !== scope || (read.total !== null && read.total !== kept.total))
    keep({ scope, total: read.total });
  const total = read.total ?? (kept.scope === scope ? kept.total : null);
  return { rows, total, error: read.error, retry: read.retry };
}

/** The rows around the span that an event is about, `null` for the last one. */
export function useSpansAround(
  sessionId: string,
  view: TreeView,
  seq: number | null,
  head: number,
  isWanted = true,
) {
  const query = useQuery({
    ...spansAround(sessionId, view, seq),
    enabled: isWanted,
    placeholderData: keepPreviousData,
  });
  useFollowing(query, isWanted ? head : 0);
  return query;
}

/** What [`useSpansAround`] asks. */
export function spansAround(sessionId: string, view: TreeView, seq: number | null) {
  return queryOptions({
    queryKey: ["around", sessionId, view, seq ?? "now"],
    queryFn: ({ signal }) => spanWindow(sessionId, view, { aroundSeq: seq }, SPANS_PAGE, signal),
    gcTime: NOW_KEPT_MS,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** A span with the events that it is made of. */
export function useSpan(sessionId: string, spanId: string | null, head: number, pages: number) {
  return useQuery({
    queryKey: ["span", sessionId, spanId, head, pages],
    queryFn: async ({ signal }) => {
      const request = {
        sessionId,
        spanId: spanId ?? "",
        pageSize: Math.min(1_000, EVENTS_PAGE * pages),
      };
      const it = await sessionsClient.getSpan(request, within(signal));
      if (it.span === undefined) throw new Error("the server sent no span");
      return {
        span: decode.span(it.span),
        ancestors: it.ancestors.map(decode.span),
        events: it.events.map(decodeRow.event),
        hasMore: it.hasMore,
      };
    },
    enabled: spanId !== null && head > 0,
    gcTime: PAST_KEPT_MS,
    placeholderData: (previous) => (previous?.span.id === spanId ? previous : undefined),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The beginning of a payload that lies beside its event. */
export function useBlob(address: string, bytesMax: number, isWanted: boolean) {
  return useQuery({
    queryKey: ["blob", address, bytesMax],
    queryFn: async ({ signal }) => {
      const reader = new AbortController();
      signal.addEventListener("abort", () => reader.abort());
      const decoder = new TextDecoder();
      let [text, bytes] = ["", 0];
      for await (const { data } of sessionsClient.getBlob(
        { blob: address },
        { signal: reader.signal },
      )) {
        text += decoder.decode(data, { stream: true });
        bytes += data.length;
        if (bytes >= bytesMax) break;
      }
      return text;
    },
    enabled: isWanted,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The session's ancestors, the session, and who was forked from it. */
export function useLineage(session: SessionRow | undefined) {
  return useQuery({
    queryKey: ["lineage", session?.id, session?.headSeq],
    queryFn: async ({ signal }) => {
      const ancestors: SessionRow[] = [];
      for (let next = session?.parent ?? null; next !== null && ancestors.length < LINEAGE_MAX; ) {
        const it = await parentOf(next.id, signal);
        if (it === null) break;
        ancestors.unshift(it);
        next = it.parent;
      }
      const parents = [...ancestors.slice(-1), ...(session === undefined ? [] : [session])];
      const forks = await Promise.all(
        parents.map(async ({ id }) => {
          const request = { parentId: id, pageSize: LINEAGE_MAX };
          const page = await sessionsClient.listSessions(request, within(signal));
          return [id, page.sessions.map(decodeRow.session)] as const;
        }),
      );
      return { ancestors, forks: new Map(forks) };
    },
    enabled: session !== undefined,
    placeholderData: keepPreviousData,
  });
}

/** A parent may be deleted: then its forks are all that is left. */
async function parentOf(id: string, signal: AbortSignal): Promise<SessionRow | null> {
  try {
    const it = await sessionsClient.getSession({ sessionId: id }, within(signal));
    return it.session === undefined ? null : decodeRow.session(it.session);
  } catch (error) {
    if (failure(error).kind === "not_found") return null;
    throw error;
  }
}

export function useReplay(sessionId: string) {
  return useMutation({
    mutationFn: async () => {
      const it = await historyClient.replaySession({ sessionId }, { timeoutMs: REPLAY_TIMEOUT_MS });
      return {
        verdict: it.verdict,
        events: Number(it.events),
        inputs: Number(it.inputs),
        unchecked: Number(it.unchecked),
        seq: Number(it.seq),
        reason: it.reason,
      };
    },
  });
}

export function useComparison(a: string, b: string) {
  return useQuery({
    queryKey: ["comparison", a, b],
    queryFn: async ({ signal }) => {
      const request = { aSessionId: a, bSessionId: b };
      const options = { signal, timeoutMs: REPLAY_TIMEOUT_MS };
      return decode.comparison(await historyClient.compareSessions(request, options));
    },
  });
}

export type Steer = "cancel" | "pause" | "resume" | "step";

export interface Steering {
  readonly what: Steer;
  readonly by: string;
  /** Why it is cancelled. */
  readonly reason?: string;
}

export function useSteer(sessionId: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: async ({ what, by: requestedBy, reason = "" }: Steering) => {
      switch (what) {
        case "cancel":
          return sessionsClient.cancelSession({ sessionId, requestedBy, reason }, within());
        case "pause":
          return sessionsClient.pauseSession({ sessionId, requestedBy }, within());
        case "resume":
          return sessionsClient.resumeSession({ sessionId, requestedBy }, within());
        case "step":
          return sessionsClient.resumeSession({ sessionId, requestedBy, once: true }, within());
      }
    },
    onSettled: () => cache.invalidateQueries({ queryKey: keys.session(sessionId) }),
  });
}

export interface Said {
  readonly content: string;
  readonly key: string;
  readonly by: string;
  /** The question that it answers; empty for none. */
  readonly answersCallId: string;
}

export function useSendMessage(sessionId: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ content, key, by, answersCallId }: Said) => {
      const request = { sessionId, content, clientKey: key, sentBy: by, answersCallId };
      return sessionsClient.sendMessage(request, within());
    },
    onSettled: () => {
      void cache.invalidateQueries({ queryKey: keys.sessions });
      return cache.invalidateQueries({ queryKey: keys.session(sessionId) });
    },
  });
}
