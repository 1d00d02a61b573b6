import { expect, test } from "vitest";
import { offsetOfRow } from "./in-sight.ts";

test.each([
  ["above", 10, { offset: 1_000 }, 240],
  ["below", 50, { offset: 1_000 }, 1_124],
  ["in sight", 43, { offset: 1_000 }, 1_000],
  ["half in sight at the top", 41, { offset: 1_000 }, 984],
  ["half in sight at the bottom", 45, { offset: 1_000 }, 1_004],
  ["higher than the list", 50, { offset: 1_000, height: 10 }, 1_200],
  ["the last of a list that became shorter", 60, { offset: 9_000, count: 61 }, 1_364],
  ["in a list that fits", 2, { offset: 9_000, count: 3 }, 0],
])("the offset of a row that is %s", (_, row, sight, to) => {
  expect(offsetOfRow({ height: 100, rowHeight: 24, count: 500, ...sight }, row)).toBe(to);
});
