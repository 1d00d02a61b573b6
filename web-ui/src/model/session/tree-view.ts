// Which rows of the tree are left out.

import type { Span } from "./spans.ts";

export interface TreeView {
  readonly collapsed: readonly string[];
  /** Calls whose attempts are shown, which are folded otherwise. */
  readonly expanded: readonly string[];
  readonly depthMax: number | null;
}

/** The server takes no more names than these. */
const NAMES_MAX = 1_000;

export const WHOLE: TreeView = { collapsed: [], expanded: [], depthMax: null };
export const STEPS_ONLY: TreeView = { ...WHOLE, depthMax: 1 };

/** The same text for views that leave out the same. */
export function viewKey(view: TreeView): string {
  return `${view.depthMax} ${view.collapsed.join()} ${view.expanded.join()}`;
}

/** The view with that span folded or unfolded. */
export function folded(view: TreeView, span: Span): TreeView {
  if (span.depth === view.depthMax) return WHOLE;
  const [collapsed, expanded] = [without(view.collapsed, span), without(view.expanded, span)];
  return span.isFolded
    ? { ...view, collapsed, expanded: added(expanded, span) }
    : { ...view, collapsed: added(collapsed, span), expanded };
}

function without(ids: readonly string[], span: Span): string[] {
  return ids.filter((id) => id !== span.id);
}

/** What was said longest ago is forgotten. */
function added(ids: readonly string[], span: Span): string[] {
  return [...ids, span.id].slice(-NAMES_MAX);
}
