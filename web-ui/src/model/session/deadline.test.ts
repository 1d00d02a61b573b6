import { expect, test } from "vitest";
import { exact } from "../words.ts";
import { deadlineWords } from "./deadline.ts";

test.each([
  [1_000, '{"limits":{"deadline_ms":60000}}', exact(1_000)],
  [null, '{"limits":{"deadline_ms":5400000}}', "1 h 30 min from its beginning"],
  [null, '{"limits":{"deadline_ms":null}}', "none"],
  [null, "{}", "none"],
  [null, "no json", "none"],
])("due at %j with the agent %s", (dueAt, agentJson, words) => {
  expect(deadlineWords(dueAt, agentJson)).toBe(words);
});
