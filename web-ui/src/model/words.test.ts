import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { age, bytes, count, duration, left, percent, person, shortId } from "./words.ts";

// The table of the command line, so that both say the same.
const DURATIONS: Array<[number, string]> = JSON.parse(
  readFileSync(
    new URL("../../../crates/stepwell-cli/src/view/durations.json", import.meta.url),
    "utf8",
  ),
);

test.each(DURATIONS)("%i ms last %s", (ms, words) => {
  expect(duration(ms)).toBe(words);
});

test("clocks that differ make no time negative", () => expect(duration(-3)).toBe("0 ms"));

test.each([
  [0, "now"],
  [-500, "now"],
  [59_000, "59 s"],
  [119_000, "1 min"],
  [3_600_000, "1 h"],
  [86_400_000, "1 d"],
])("%i ms ago is %s", (ms, words) => {
  expect(age(1_000_000_000 - ms, 1_000_000_000)).toBe(words);
});

describe("what is left", () => {
  test("is never more than it is", () => expect(left(3_599_999, 0)).toBe("59 min"));
  test("is said in hours up to two days", () => expect(left(47 * 3_600_000, 0)).toBe("47 h"));
  test("can be nothing", () => expect(left(5, 5)).toBe("over"));
});

test.each([
  [999, "999"],
  [1_000, "1k"],
  [12_400, "12k"],
  [9_940, "9.9k"],
  [999_949, "1000k"],
  [999_950, "1M"],
])("%i is counted as %s", (value, words) => {
  expect(count(value)).toBe(words);
});

test("sizes, shares, names", () => {
  expect(bytes(1_023)).toBe("1023 B");
  expect(bytes(2_048)).toBe("2 KiB");
  expect(percent(1, 3)).toBe("33 %");
  expect(percent(0, 0)).toBe("");
  expect(shortId("0123456789")).toBe("01234567");
  expect(person("person:ada")).toBe("ada");
  expect(person("engine")).toBe("engine");
});
