import { expect, test } from "vitest";
import { ARMED_AFTER_MS, isArmed, standing } from "./arming.ts";

const here = { left: 10, top: 400 };

test.each([
  ["what has just appeared", here, 100, false],
  ["what stands there for long", here, ARMED_AFTER_MS, true],
  ["what has just moved up", { left: 10, top: 300 }, ARMED_AFTER_MS, false],
  ["what has just moved aside", { left: 80, top: 400 }, ARMED_AFTER_MS, false],
  ["what was rounded otherwise", { left: 10.2, top: 399.9 }, ARMED_AFTER_MS, true],
])("a press on %s", (_what, place, after, isMeant) => {
  const first = standing(null, here, 1_000);
  const seen = standing(first, place, 1_000 + after);
  expect(isArmed(seen, 1_000 + after)).toBe(isMeant);
});

test("it counts when the press began, not when the button was let go", () => {
  const it = standing(null, here, 1_000);
  const looked = standing(it, here, 5_000);
  expect(isArmed(looked, 1_000 + ARMED_AFTER_MS - 1)).toBe(false);
  expect(isArmed(null, 5_000)).toBe(false);
});
