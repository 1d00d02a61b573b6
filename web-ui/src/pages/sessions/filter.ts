// What the list is narrowed to, as it stands in the address.

import { STATUSES, type Status } from "../../model/types.ts";

export type Label = readonly [key: string, value: string];

export interface ListFilter {
  readonly text: string;
  readonly status: Status | null;
  readonly agent: string;
  readonly labels: readonly Label[];
}

export const ALL: ListFilter = { text: "", status: null, agent: "", labels: [] };

/** How a label is written, for who wrote something else. */
export const LABEL_WORDS = "A label is written key=value, for example team=core.";

/** A filter, and what of its address is none, in words. */
export interface ReadFilter {
  readonly filter: ListFilter;
  readonly problems: readonly string[];
}

const NAMES = ["text", "status", "agent", "label"];

/** Nothing is passed over: a list that is wider than its address says would be a lie. */
export function readFilter(search: URLSearchParams): ReadFilter {
  const problems = [...new Set(search.keys())]
    .filter((it) => !NAMES.includes(it))
    .map((it) => `“${it}” narrows nothing: it is done by ${NAMES.join(", ")}.`);
  const one = (name: string): string => {
    const values = search.getAll(name);
    if (values.length > 1) problems.push(`“${name}” is there ${values.length} times.`);
    return values[0] ?? "";
  };
  const [text, named, agent] = [one("text"), one("status"), one("agent")];
  const status = STATUSES.find((it) => it === named) ?? null;
  if (status === null && named !== "")
    problems.push(`“${named}” is no status: there are ${STATUSES.join(", ")}.`);
  const labels: Label[] = [];
  for (const written of search.getAll("label").filter((it) => it !== "")) {
    const label = readLabel(written);
    if (label === null) problems.push(`“${written}” is no label. ${LABEL_WORDS}`);
    else if (labels.some(([key]) => key === label[0]))
      problems.push(`The label “${label[0]}” is there twice: a session has one value of it.`);
    else labels.push(label);
  }
  return { filter: { text, status, agent, labels }, problems };
}

/** Only what narrows is written. */
export function writeFilter(filter: ListFilter): URLSearchParams {
  const search = new URLSearchParams();
  if (filter.text !== "") search.set("text", filter.text);
  if (filter.status !== null) search.set("status", filter.status);
  if (filter.agent !== "") search.set("agent", filter.agent);
  for (const label of filter.labels) search.append("label", writeLabel(label));
  return search;
}

export function isNarrow(filter: ListFilter): boolean {
  return writeFilter(filter).size > 0;
}

/** `key=value`; `null` for what is no label. */
export function readLabel(text: string): Label | null {
  const at = text.indexOf("=");
  return at < 1 ? null : [text.slice(0, at), text.slice(at + 1)];
}

export function writeLabel([key, value]: Label): string {
  return `${key}=${value}`;
}

/** The filter, narrowed to a label, too. A session has one value of a key, so the last one counts. */
export function withLabel(filter: ListFilter, label: Label): ListFilter {
  return { ...filter, labels: [...withoutLabel(filter, label[0]).labels, label] };
}

export function withoutLabel(filter: ListFilter, key: string): ListFilter {
  return { ...filter, labels: filter.labels.filter(([it]) => it !== key) };
}
