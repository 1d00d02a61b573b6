import { expect, test } from "vitest";
import { shellWord } from "./shell.ts";

test.each([
  ["coder@3", "coder@3"],
  ["", "''"],
  ["two words", "'two words'"],
  ["it's", "'it'\\''s'"],
  ["$(rm x)", "'$(rm x)'"],
  ["a\nb", "'a\nb'"],
])("%j is written as %s", (word, written) => {
  expect(shellWord(word)).toBe(written);
});
