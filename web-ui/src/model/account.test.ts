import { expect, test } from "vitest";
import { cost, type ModelAccount } from "./account.ts";
import { money } from "./words.ts";

const model = (costMicros: number | null): ModelAccount => ({
  model: "m",
  replies: 1,
  promptTokens: 10,
  cachedTokens: 0,
  completionTokens: 1,
  costMicros,
});

test("a cost is told as far as there are prices", () => {
  expect(cost([])).toBeNull();
  expect(cost([model(null)])).toBeNull();
  expect(cost([model(0)])).toEqual({ micros: 0, unpriced: 0 });
  expect(cost([model(7), model(null), model(5)])).toEqual({ micros: 12, unpriced: 1 });
});

test.each([
  [0, "0.00"],
  [1, "0.000001"],
  [12_300, "0.0123"],
  [1_500_000, "1.50"],
  [1_000_000, "1.00"],
  [1_234_567_000_000, "1,234,567.00"],
])("%i millionths are %s", (micros, words) => {
  expect(money(micros)).toBe(words);
});
