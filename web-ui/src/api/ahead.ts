// Asks for what a page is going to show before the page is made anew: the server answers meanwhile.

import type { QueryClient } from "@tanstack/react-query";
import type { Moment } from "../address.ts";
import { type TreeView, WHOLE } from "../model/session/tree-view.ts";
import { momentState, spansAround } from "./history-queries.ts";

/**
 * What the page of a session shows first of a moment. Failures are told by the page, which asks again,
 * and drops what it does not want any more.
 */
export function askAhead(
  cache: QueryClient,
  { sessionId, seq }: Moment,
  view: TreeView = WHOLE,
): void {
  void cache.prefetchQuery(momentState(sessionId, seq));
  // Of now the messages come first: a server that makes the tree anew has no hand free for them.
  if (seq !== null) void cache.prefetchQuery(spansAround(sessionId, view, seq));
}
