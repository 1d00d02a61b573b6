import { expect, test } from "vitest";
import { readingWords, shownOf } from "./shown.ts";

const past = { seq: 5, state: "as it was at 5" };

test("until another moment was read, the one before stays, under its own name", () => {
  expect(shownOf(7, undefined, past)).toBe(past);
  expect(shownOf(null, undefined, past)).toBe(past);
  expect(shownOf(7, "as it was at 7", past)).toEqual({ seq: 7, state: "as it was at 7" });
  expect(shownOf(7, undefined, null)).toBeNull();
});

test("now is read again and again", () => {
  const now = { seq: null, state: "first" };
  expect(shownOf(null, "first", now)).toBe(now);
  expect(shownOf(null, "second", now)).toEqual({ seq: null, state: "second" });
});

test.each([
  [77, 50, "Reading event 77 … What you see is event 50."],
  [null, 50, "Reading now … What you see is event 50."],
  [77, null, "Reading event 77 … What you see is now."],
])("reading %j over %j", (wanted, shown, words) => {
  expect(readingWords(wanted, shown)).toBe(words);
});
