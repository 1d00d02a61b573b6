import { expect, test } from "vitest";
import { type Found, findingWords, hasMore, NOTHING_FOUND, neighbour, placeOf } from "./found.ts";

const found = [3, 8, 20].map(
  (seq): Found => ({ seq, type: "model_replied", before: "", match: "x", after: "" }),
);

const ALL = { found, seq: 30, head: 30, isDone: true };

test.each([
  [0, 1, 3],
  [3, 1, 8],
  [9, 1, 20],
  [20, 1, 3],
  [20, -1, 8],
  [3, -1, 20],
  [0, -1, 20],
] as const)("from event %i by %i it goes to %i", (from, by, to) => {
  expect(neighbour(ALL, from, by)).toBe(to);
});

test("where the end was not looked at, the next one is further on, not at the beginning", () => {
  const part = { ...ALL, head: 90 };
  expect(neighbour(part, 9, 1)).toBe(20);
  expect(neighbour(part, 20, 1)).toBe("further");
  expect(neighbour({ ...ALL, isDone: false }, 20, 1)).toBe("further");
  expect(neighbour(NOTHING_FOUND, 20, 1)).toBe("further");
});

test("where nothing is there is no neighbour", () => {
  expect(neighbour({ ...ALL, found: [] }, 4, 1)).toBeNull();
  expect(neighbour({ ...ALL, found: [] }, 4, -1)).toBeNull();
  expect([placeOf(found, 8), placeOf(found, 9), placeOf(found, null)]).toEqual([1, -1, -1]);
});

test("it says how far it is", () => {
  const part = { found, seq: 30_000, head: 100_000, isDone: false };
  expect(findingWords(NOTHING_FOUND, -1)).toBe("looking …");
  expect(findingWords(part, -1)).toBe("3 found, event 30,000 …");
  expect(findingWords({ ...part, isDone: true }, 0)).toBe("1 of 3 up to event 30,000");
  expect(hasMore({ ...part, isDone: true })).toBe(true);
  const all = { ...part, seq: 100_000, isDone: true };
  expect([hasMore(all), findingWords(all, 2), findingWords(all, -1)]).toEqual([
    false,
    "3 of 3",
    "3 found",
  ]);
  expect(findingWords({ ...all, found: [] }, -1)).toBe("nowhere in this session");
});
