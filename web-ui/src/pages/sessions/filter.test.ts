import { expect, test } from "vitest";
import {
  ALL,
  isNarrow,
  type ListFilter,
  readFilter,
  readLabel,
  withLabel,
  withoutLabel,
  writeFilter,
} from "./filter.ts";

const read = (search: string) => readFilter(new URLSearchParams(search));

const FULL: ListFilter = {
  text: "a&b",
  status: "failed",
  agent: "coder",
  labels: [
    ["team", "x=y"],
    ["env", ""],
  ],
};

test.each<[ListFilter]>([[ALL], [FULL], [{ ...ALL, labels: [["ü", "=&"]] }]])(
  "%j is read back from its address",
  (filter) => {
    expect(read(writeFilter(filter).toString())).toEqual({ filter, problems: [] });
  },
);

test("what narrows nothing is not in the address", () => {
  expect(writeFilter(ALL).toString()).toBe("");
  expect(read("text=&status=&label=&agent=")).toEqual({ filter: ALL, problems: [] });
  expect(isNarrow(ALL)).toBe(false);
  expect(isNarrow(FULL)).toBe(true);
});

test.each([
  ["status=bogus", "“bogus” is no status"],
  ["status=Failed", "“Failed” is no status"],
  ["status=failed,completed", "is no status"],
  ["status=failed&status=completed", "“status” is there 2 times"],
  ["label=bogus", "“bogus” is no label. A label is written key=value"],
  ["label=%3Dx", "“=x” is no label"],
  ["label=team=a&label=team=b", "The label “team” is there twice"],
  ["staus=failed", "“staus” narrows nothing: it is done by text, status, agent, label"],
  ["text=a&text=b", "“text” is there 2 times"],
])("of %s it is said what is wrong", (search, words) => {
  const { problems } = read(search);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(words);
});

test("all that is wrong is said, and the rest is read", () => {
  const { filter, problems } = read("status=x&label=y&agent=coder&z=1");
  expect(problems).toHaveLength(3);
  expect(filter).toEqual({ ...ALL, agent: "coder" });
});

test.each([
  ["a=b", ["a", "b"]],
  ["a=", ["a", ""]],
  ["a=b=c", ["a", "b=c"]],
  ["=b", null],
  ["a", null],
  ["", null],
])("%s as a label", (text, label) => expect(readLabel(text)).toEqual(label));

test("a label adds to a filter, and goes from it", () => {
  const more = withLabel(FULL, ["tier", "1"]);
  expect(more).toEqual({ ...FULL, labels: [...FULL.labels, ["tier", "1"]] });
  expect(withLabel(FULL, ["team", "web"]).labels).toEqual([
    ["env", ""],
    ["team", "web"],
  ]);
  expect(withoutLabel(FULL, "team").labels).toEqual([["env", ""]]);
});
