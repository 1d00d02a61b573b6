import { expect, test } from "vitest";
import { atServer, FIRST_TASK, shellWord } from "./shell.ts";

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

test.each([
  ["http://127.0.0.1:7171", "stepwell ls"],
  ["http://localhost:7171", "stepwell ls"],
  ["http://127.0.0.1:7172", "stepwell ls --server http://127.0.0.1:7172"],
  ["https://agents.example", "stepwell ls --server https://agents.example"],
])("a line for the server at %s is %s", (origin, line) => {
  expect(atServer("stepwell ls", origin)).toBe(line);
});

test("the first line is one of a shell, with the line ends left to it", () => {
  expect(FIRST_TASK).toContain(String.raw`"hello"\ninstructions`);
  expect(FIRST_TASK.split("\n")).toHaveLength(1);
});
