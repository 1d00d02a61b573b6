import { expect, test } from "vitest";
import type { Span } from "./spans.ts";
import { FIRST, type Goal, LAST, startOf, walk } from "./tree-walk.ts";

const span = (id: string, depth: number, parentId: string): Span => ({
  id,
  parentId,
  depth,
  kind: "step",
  name: "",
  start: 0,
  end: 1,
  firstSeq: 1,
  lastSeq: 1,
  status: "ok",
  detail: "",
  row: 0,
  size: 1,
  children: 0,
  isLast: true,
  isFolded: false,
});

const ROWS = [
  span("session", 0, ""),
  span("step:1", 1, "session"),
  span("call:1.1", 2, "step:1"),
  span("approval:1", 3, "call:1.1"),
  span("call:1.2", 2, "step:1"),
  span("step:2", 1, "session"),
];

/** All rows, but those in `unread` and `later`. */
const read =
  (unread: readonly number[], later: readonly number[] = []) =>
  (row: number) =>
    unread.includes(row) ? undefined : later.includes(row) ? null : ROWS[row];

const to = (row: number, way: 1 | -1): Goal => ({ kind: "row", row, way });
const around = (row: number): Goal => ({ kind: "parent", of: ROWS[row] as Span, row });

test.each<[string, Goal, number[], number[], string]>([
  ["first", FIRST, [], [], "session"],
  ["last", LAST, [], [], "step:2"],
  ["first, unread", FIRST, [0], [], "unread 0"],
  ["last, unread", LAST, [4, 5], [], "unread 5"],
  ["beyond the end", to(9, 1), [], [], "step:2"],
  ["before the beginning", to(-3, -1), [], [], "session"],
  ["over what had not begun, down", to(3, 1), [], [3], "call:1.2"],
  ["over what had not begun, up", to(3, -1), [], [3], "call:1.1"],
  ["over what had not begun, to what is unread", to(3, 1), [4], [3], "unread 4"],
  ["only what had not begun is left", to(5, 1), [], [5], "nowhere"],
  ["around a call", around(4), [], [], "step:1"],
  ["around a call, over what had not begun", around(4), [], [3], "step:1"],
  ["around a call, as far as was read", around(4), [2], [], "unread 2"],
  ["around an approval", around(3), [0, 1], [], "call:1.1"],
  ["around a step, whatever is between", around(5), [1, 2, 3, 4], [], "session"],
  ["around a step, root unread", around(5), [0], [], "unread 0"],
  ["around the session is itself", around(0), [], [], "session"],
])("%s", (_, goal, unread, later, wanted) => {
  const step = walk(goal, read(unread, later), ROWS.length);
  switch (step.kind) {
    case "found":
      expect(step.span.id).toBe(wanted);
      expect(ROWS[step.row]?.id).toBe(wanted);
      break;
    case "unread":
      expect(`unread ${step.row}`).toBe(wanted);
      break;
    case "nowhere":
      expect("nowhere").toBe(wanted);
      break;
  }
});

test("in a tree without rows there is nowhere to go", () => {
  expect(walk(LAST, () => undefined, 0)).toEqual({ kind: "nowhere" });
});

test("keys that come before a row was read count on from it", () => {
  expect(startOf(null, 3, 10)).toBe(3);
  expect(startOf(LAST, 3, 10)).toBe(9);
  expect(startOf(to(6, 1), 3, 10)).toBe(6);
  expect(startOf(around(4), 4, 10)).toBe(4);
});
