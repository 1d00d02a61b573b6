// What the list is narrowed to, as it stands in the address.

import { STATUSES, type Status } from "../../model/types.ts";

export interface ListFilter {
  readonly text: string;
  readonly status: Status | null;
  readonly agent: string;
  /** `key=value`, as it was typed. */
  readonly label: string;
}

export function readFilter(search: URLSearchParams): ListFilter {
  const status = search.get("status");
  return {
    text: search.get("text") ?? "",
    status: STATUSES.find((it) => it === status) ?? null,
    agent: search.get("agent") ?? "",
    label: search.get("label") ?? "",
  };
}

/** Only what narrows is written. */
export function writeFilter(filter: ListFilter): URLSearchParams {
  const search = new URLSearchParams();
  if (filter.text !== "") search.set("text", filter.text);
  if (filter.status !== null) search.set("status", filter.status);
  if (filter.agent !== "") search.set("agent", filter.agent);
  if (filter.label !== "") search.set("label", filter.label);
  return search;
}

export function isNarrow(filter: ListFilter): boolean {
  return writeFilter(filter).size > 0;
}

/** The label of a filter; nothing while it is still being typed. */
export function labelOf(filter: ListFilter): ReadonlyArray<readonly [string, string]> {
  const at = filter.label.indexOf("=");
  return at < 1 ? [] : [[filter.label.slice(0, at), filter.label.slice(at + 1)]];
}
