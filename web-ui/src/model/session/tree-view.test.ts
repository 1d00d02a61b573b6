import { expect, test } from "vitest";
import type { Span } from "./spans.ts";
import { folded, STEPS_ONLY, WHOLE } from "./tree-view.ts";

const span = (id: string, isFolded: boolean, depth = 2): Span => ({
  id,
  parentId: "",
  depth,
  kind: "tool_call",
  name: "",
  start: 0,
  end: 1,
  firstSeq: 1,
  lastSeq: 1,
  status: "ok",
  detail: "",
  row: 0,
  size: 3,
  children: 2,
  isLast: true,
  isFolded,
});

test("a fold and its unfold, whoever folded it", () => {
  const once = folded(WHOLE, span("a", false));
  expect(once).toEqual({ ...WHOLE, collapsed: ["a"] });
  expect(folded(once, span("a", true))).toEqual({ ...WHOLE, expanded: ["a"] });
  expect(folded({ ...WHOLE, expanded: ["a"] }, span("a", false))).toEqual(once);
});

test("steps only is left at the first unfold", () => {
  expect(folded(STEPS_ONLY, span("step:1", true, 1))).toEqual(WHOLE);
});

test("no more names are kept than the server takes", () => {
  let view = WHOLE;
  for (let at = 0; at < 1_005; at += 1) view = folded(view, span(`a${at}`, false));
  expect(view.collapsed.length).toBe(1_000);
  expect(view.collapsed.at(-1)).toBe("a1004");
});
