// Asks for what a page is going to show before the page is made: the server answers meanwhile.

import type { QueryClient } from "@tanstack/react-query";
import type { Moment } from "../address.ts";
import { WHOLE } from "../model/session/tree-view.ts";
import { momentState, spansAround } from "./history-queries.ts";

/** What the page of a session paints first. Failures are told by the page, which asks again. */
export function askAhead(cache: QueryClient, { sessionId, seq }: Moment): void {
  void cache.prefetchQuery(momentState(sessionId, seq));
  void cache.prefetchQuery(spansAround(sessionId, WHOLE, seq));
}
