import { expect, test } from "vitest";
import { beginning, exactly, hiddenWords, visible } from "./visible.ts";

test.each([
  ["plain, with\ttab\nand line", "plain, with\ttab\nand line"],
  ["two\r\nlines", "two\nlines"],
  ["back\rover", "back<U+000D>over"],
  ["\u001b[31mred", "<U+001B>[31mred"],
  ["a\u202eb", "a<U+202E>b"],
  ["zero\u200bwidth", "zero<U+200B>width"],
  ["half \ud83d", "half <U+D83D>"],
  ["whole 😀 é 漢", "whole 😀 é 漢"],
  ["tag \u{e0041}", "tag <U+E0041>"],
])("%j is shown as %j", (text, shown) => {
  expect(visible(text)).toBe(shown);
});

test.each([
  ["short", 10, 10, "short", 0],
  ["a\nb\nc", 100, 2, "a\nb", 2],
  ["0123456789", 4, 10, "0123", 6],
  ["0123456\n89", 9, 10, "0123456", 3],
  ["0\n23456789", 9, 10, "0\n2345678", 1],
  ["abc😀def", 4, 10, "abc", 5],
])("the beginning of %j within %i characters and %i lines", (text, chars, lines, shown, hidden) => {
  const it = beginning(text, chars, lines);
  expect([it.text, it.hiddenChars]).toEqual([shown, hidden]);
  expect(it.text.length + it.hiddenChars).toBe(text.length);
});

test.each([
  [`rm x${" ".repeat(25)}# y`, "rm x<25 spaces># y"],
  ["a\u00a0b", "a<U+00A0>b"],
  [`a${"\n".repeat(9)}b`, "a\n<8 empty lines>\nb"],
  ["a\r\nb", "a<U+000D>\nb"],
  ["plain   text\n\n\nis plain", "plain   text\n\n\nis plain"],
])("%j is decided on as %j", (text, shown) => {
  expect(exactly(text)).toBe(shown);
});

test.each([
  [0, 3_200, "3.2k characters more"],
  [1, 40, "1 more line, 40 characters"],
  [12, 400, "12 more lines, 400 characters"],
])("%d lines and %d characters are left out", (hiddenLines, hiddenChars, words) => {
  expect(hiddenWords({ text: "", hiddenLines, hiddenChars })).toBe(words);
});
