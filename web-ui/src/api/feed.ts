// What happens in one session, as it happens: first the strip of all events, then each new one, and
// the pieces in between. After a break it goes on behind the last event that came, so that none is
// missed and none comes twice.

import { Code, ConnectError } from "@connectrpc/connect";
import {
  type Live,
  SILENT,
  withBreak,
  withChunk,
  withMissed,
  withEvent as withoutSaid,
} from "../model/session/live.ts";
import { EMPTY_STRIP, type Strip, withEvent, withPage } from "../model/session/strip.ts";
import { historyClient, sessionsClient, within } from "./clients.ts";
import * as decode from "./decode-history.ts";
import { queryClient } from "./query-client.ts";

/** Wait before the next try: twice as long each time. */
const RETRY_FIRST_MS = 250;
const RETRY_LAST_MS = 5_000;
/** Watchers are told at most this often. */
const TELL_EVERY_MS = 50;

/** `over`: the session is finished, nothing more will come; `gone`: it was deleted. */
export type Connection = "reading" | "live" | "broken" | "over" | "gone";

export interface FeedView {
  readonly strip: Strip;
  readonly live: Live;
  readonly connection: Connection;
  /** Since when it is broken; `null` while it is not. */
  readonly lostAt: number | null;
}

export interface Feed {
  readonly subscribe: (changed: () => void) => () => void;
  readonly view: () => FeedView;
}

/** A feed that runs while somebody is subscribed and looks. */
export function createFeed(sessionId: string): Feed {
  let view: FeedView = { strip: EMPTY_STRIP, live: SILENT, connection: "reading", lostAt: null };
  const watchers = new Set<() => void>();
  let stop: AbortController | null = null;
  let isTelling = false;

  const tell = () => {
    if (isTelling) return;
    isTelling = true;
    window.setTimeout(() => {
      isTelling = false;
      for (const changed of watchers) changed();
    }, TELL_EVERY_MS);
  };
  const set = (more: Partial<FeedView>) => {
    view = { ...view, ...more };
    tell();
  };

  const readStrip = async (signal: AbortSignal) => {
    for (;;) {
      const afterSeq = BigInt(view.strip.length);
      const page = await historyClient.getTimeline({ sessionId, afterSeq }, within(signal));
      const more = decode.stripPage(page);
      const types = new Set([...more.marks].map((mark) => more.types[mark & 0x7f] ?? ""));
      set({ strip: withPage(view.strip, more), live: withMissed(view.live, types) });
      if (page.marks.length === 0 || view.strip.length >= Number(page.lastSeq)) return;
    }
  };

  /** Until the stream ends; it ends by itself after the last event of a finished session. */
  const watch = async (signal: AbortSignal) => {
    const request = { sessionId, afterSeq: BigInt(view.strip.length) };
    for await (const { item } of sessionsClient.watchSession(request, { signal })) {
      if (item.case === "caughtUp") set({ connection: "live", lostAt: null });
      else if (item.case === "chunk") set({ live: withChunk(view.live, item.value) });
      else if (item.case === "event") {
        const { seq, type, timeMs, bodyJson } = item.value;
        const expected = view.strip.length + 1;
        if (Number(seq) < expected) continue;
        if (Number(seq) > expected) throw new Error(`event ${expected} did not come`);
        const { begins, callId } = glance(type, bodyJson, view.strip);
        const strip = withEvent(view.strip, type, Number(timeMs), begins);
        set({ strip, live: withoutSaid(view.live, type, callId) });
      }
    }
  };

  const run = async (signal: AbortSignal) => {
    let wait = RETRY_FIRST_MS;
    while (!signal.aborted) {
      const before = view.strip.length;
      try {
        await readStrip(signal);
        await watch(signal);
        if (isOver(view.strip)) return set({ connection: "over", lostAt: null, live: SILENT });
        set({
          connection: "broken",
          lostAt: view.lostAt ?? Date.now(),
          live: withBreak(view.live),
        });
      } catch (error) {
        if (signal.aborted) return;
        const { code } = ConnectError.from(error);
        const live = withBreak(view.live);
        if (code === Code.NotFound) return set({ connection: "gone", lostAt: null, live });
        set({ connection: "broken", lostAt: view.lostAt ?? Date.now(), live });
        // The history is shorter than it was: another store. All of it is read anew.
        if (code === Code.InvalidArgument) {
          set({ strip: EMPTY_STRIP });
          void queryClient.resetQueries({ predicate: (it) => it.queryKey.includes(sessionId) });
        }
      }
      if (view.strip.length > before) wait = RETRY_FIRST_MS;
      await pause(wait, signal);
      wait = Math.min(RETRY_LAST_MS, wait * 2);
    }
  };

  const end = () => {
    stop?.abort();
    stop = null;
  };
  /** A browser has few connections to one address: a tab that nobody looks at gives its own back. */
  const look = () => {
    if (document.visibilityState === "hidden") {
      end();
    } else if (stop === null && view.connection !== "over") {
      stop = new AbortController();
      set({ connection: "reading", live: withBreak(view.live) });
      void run(stop.signal);
    }
  };

  return {
    view: () => view,
    subscribe: (changed) => {
      watchers.add(changed);
      if (watchers.size === 1) {
        document.addEventListener("visibilitychange", look);
        look();
      }
      return () => {
        watchers.delete(changed);
        if (watchers.size > 0) return;
        document.removeEventListener("visibilitychange", look);
        end();
      };
    },
  };
}

function isOver(strip: Strip): boolean {
  const last = strip.marks[strip.length - 1] ?? 0;
  return strip.types[last & 0x7f] === "session_finished";
}

/** What the strip and the live texts need of an event's content. */
function glance(type: string, bodyJson: string, strip: Strip): { begins: boolean; callId: string } {
  if (type !== "model_requested" && !type.startsWith("tool_")) return { begins: false, callId: "" };
  const body = JSON.parse(bodyJson) as { attempt?: number; call_id?: string; step?: number };
  // A fork asks again in the step that its parent had begun.
  const isAgain = type === "model_requested" && hasStep(strip, body.step ?? 0);
  return { begins: type === "model_requested" && !isAgain, callId: body.call_id ?? "" };
}

function hasStep(strip: Strip, step: number): boolean {
  let steps = 0;
  for (let at = 0; at < strip.length; at += 1) steps += (strip.marks[at] ?? 0) >> 7;
  return step <= steps;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = window.setTimeout(done, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      done();
    });
  });
}
