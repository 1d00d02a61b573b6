// The lines of the sessions page, top to bottom.

import type { Section } from "../../model/status.ts";
import type { SessionRow } from "../../model/types.ts";

export interface Part {
  readonly section: Section;
  readonly rows: readonly SessionRow[];
  readonly hasMore: boolean;
}

export type Item =
  | {
      readonly type: "head";
      readonly section: Section;
      readonly count: number;
      readonly hasMore: boolean;
    }
  | { readonly type: "row"; readonly section: Section; readonly session: SessionRow }
  | { readonly type: "more"; readonly section: Section };

/**
 * Sections without rows are left out. While the parts are read one after the other a session can move
 * from one to the next: it stands once, where its newest row is.
 */
export function listItems(parts: readonly Part[]): Item[] {
  const newest = new Map<string, SessionRow>();
  for (const { rows } of parts) {
    for (const row of rows) {
      const known = newest.get(row.id);
      if (known === undefined || known.headSeq < row.headSeq) newest.set(row.id, row);
    }
  }
  const items: Item[] = [];
  for (const { section, rows, hasMore } of parts) {
    const shown = rows.filter((row) => newest.get(row.id) === row && newest.delete(row.id));
    if (shown.length === 0) continue;
    items.push({ type: "head", section, count: shown.length, hasMore });
    for (const session of shown) items.push({ type: "row", section, session });
    if (hasMore) items.push({ type: "more", section });
  }
  return items;
}

/** The session that is `by` rows away from the chosen one; the first or last where there is none. */
export function neighbour(
  items: readonly Item[],
  chosen: string | null,
  by: number,
): string | null {
  const ids = items.flatMap((it) => (it.type === "row" ? [it.session.id] : []));
  const at = chosen === null ? -1 : ids.indexOf(chosen);
  if (at === -1) return ids[by > 0 ? 0 : ids.length - 1] ?? null;
  return ids[Math.max(0, Math.min(ids.length - 1, at + by))] ?? null;
}
