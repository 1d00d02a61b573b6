import { expect, test } from "vitest";
import { EMPTY_DRAFT, problemOf, submitLine, toRequest } from "./draft.ts";

const draft = { ...EMPTY_DRAFT, task: "Fix it's test", agent: "coder" };

test.each([
  [{ task: " " }, "Say what shall be done."],
  [{ labels: "team" }, "A label is key=value: team is not."],
  [{ labels: "=x" }, "A label is key=value: =x is not."],
  [{ labels: "team=web  ticket=" }, null],
])("with %j the problem is %j", (part, problem) => {
  expect(problemOf({ ...draft, ...part })).toBe(problem);
});

test("labels keep what stands behind the first sign", () => {
  const request = toRequest({ ...draft, labels: "a=b=c d=" }, "key");
  expect(request.labels).toEqual([
    ["a", "b=c"],
    ["d", ""],
  ]);
  expect(request.clientKey).toBe("key");
});

test("the command line does the same", () => {
  expect(submitLine(draft)).toBe(`stepwell submit --agent coder 'Fix it'\\''s test'`);
  expect(
    submitLine({ ...draft, title: "a b", labels: "t=w", workspace: "w", paused: true, task: "x" }),
  ).toBe("stepwell submit --agent coder --title 'a b' --label t=w --workspace w --paused x");
  expect(submitLine({ ...draft, task: "" })).toBe("stepwell submit --agent coder TASK");
});
