import { expect, test } from "vitest";
import { diffSize, firstLines, folded, lineDiff } from "./diff.ts";

const MARKS = { same: " ", added: "+", removed: "-" };

function shown(before: string, after: string): string[] {
  return lineDiff(before, after).map((it) => `${MARKS[it.kind]}${it.text}`);
}

test.each([
  ["", "", []],
  ["a\nb\n", "a\nb\n", [" a", " b"]],
  ["a\nb\nc\n", "a\nx\nc\n", [" a", "-b", "+x", " c"]],
  ["", "new\n", ["+new"]],
  ["gone", "", ["-gone"]],
])("from %j to %j", (before, after, lines) => {
  expect(shown(before, after)).toEqual(lines);
});

test("what is far from a change is folded", () => {
  const before = Array.from({ length: 20 }, (_, at) => `${at}\n`).join("");
  const blocks = folded(lineDiff(before, before.replace("10\n", "ten\n")));
  expect(blocks.map((it) => (it.type === "gap" ? it.count : it.lines.length))).toEqual([7, 8, 6]);
});

test("two long texts without a common line are not compared for ever", () => {
  const text = (word: string) =>
    Array.from({ length: 5_000 }, (_, at) => `${word}${at}\n`).join("");
  expect(diffSize(lineDiff(text("a"), text("b")))).toEqual({ added: 5_000, removed: 5_000 });
});

test.each([
  [0, [], 3],
  [1, [1], 2],
  [2, [2], 1],
  [3, [2, 9, 1], 0],
  [9, [2, 9, 1], 0],
])("of a long diff the first %i lines", (linesMax, sizes, hidden) => {
  const line = { kind: "added", text: "x" } as const;
  const whole = [
    { type: "lines", lines: [line, line] },
    { type: "gap", count: 9 },
    { type: "lines", lines: [line] },
  ] as const;
  const first = firstLines(whole, linesMax);
  expect(first.blocks.map((it) => (it.type === "gap" ? it.count : it.lines.length))).toEqual(sizes);
  expect(first.hidden).toBe(hidden);
});
