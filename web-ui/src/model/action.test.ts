import { expect, test } from "vitest";
import { actionName, actionOf, hiddenIn } from "./action.ts";

const json = JSON.stringify;

test.each([
  ["shell", { command: "git push origin fix" }, "Run `git push origin fix`"],
  ["shell", { command: "a\nb" }, "Run `a⏎b`"],
  ["edit_file", { path: "dates.py", old_text: "a", new_text: "b" }, "Edit `dates.py`"],
  ["write_file", { path: "a.txt", content: "" }, "Write `a.txt`"],
  ["pay", { what: "order 771" }, "Run `pay`"],
  ["pay", {}, "Run `pay`"],
])("the button for %s with %j says %s", (tool, fields, name) => {
  expect(actionName(tool, actionOf(json(fields)))).toBe(name);
});

test("the end of a long command is on the button", () => {
  const name = actionName(
    "shell",
    actionOf(json({ command: `echo ${"x".repeat(4_000)}; rm -rf data` })),
  );
  expect(name).toMatch(/^Run `echo x+…x+; rm -rf data`$/);
  expect(name.length).toBeLessThan(60);
});

test("what is hidden behind blanks comes to light", () => {
  const name = actionName("shell", actionOf(json({ command: `ls${" ".repeat(4_000)}; rm x` })));
  expect(name).toBe("Run `ls<4000 spaces>; rm x`");
});

test("all other arguments are kept", () => {
  const action = actionOf(json({ path: "a", old_text: "1", new_text: "2", replace_all: true }));
  expect(action).toEqual({
    type: "edit",
    path: "a",
    before: "1",
    after: "2",
    rest: [{ name: "replace_all", text: "true" }],
  });
});

test.each([
  "[1]",
  "{",
  "null",
  '{"amount":12345678901234567890}',
  '{"amount":1e400}',
  '{"amount":0.1000000000000000055}',
])("%s is shown as it is", (text) => {
  expect(actionOf(text)).toEqual({ type: "raw", text });
});

test("digits in a text are no number", () => {
  expect(actionOf('{"a":"12345678901234567890 \\"1e9"}').type).toBe("other");
});

test("hidden characters are counted, also in names", () => {
  expect(hiddenIn(json({ "a\u200b": "ls\u202e\r\u001b[8m; rm" }))).toBe(4);
  expect(hiddenIn("{\u001b")).toBe(1);
  expect(hiddenIn(json({ command: "plain text" }))).toBe(0);
});
