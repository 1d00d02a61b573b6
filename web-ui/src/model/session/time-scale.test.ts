import { describe, expect, test } from "vitest";
import { place, timeScale } from "./time-scale.ts";

const MINUTE = 60_000;

function scale(...times: number[]) {
  return timeScale(Float64Array.from(times), 0, times.length);
}

test("without pauses a place is a share of the time", () => {
  const it = scale(0, 1_000, 2_000);
  expect(it.folds).toEqual([]);
  expect([0, 500, 1_000, 2_000].map((time) => place(it, time))).toEqual([0, 0.25, 0.5, 1]);
});

test("what is outside is at the nearer end", () => {
  const it = scale(1_000, 2_000);
  expect([place(it, 0), place(it, 9_999)]).toEqual([0, 1]);
});

describe("a long pause", () => {
  // A second of work, an hour of nothing, a second of work.
  const it = scale(0, 1_000, 1_000 + 60 * MINUTE, 2_000 + 60 * MINUTE);
  test("is folded, however long it is", () => {
    expect(it.folds.length).toBe(1);
    expect(it.folds[0]?.width).toBeLessThan(0.05);
  });
  test("leaves the work its room", () => {
    expect(place(it, 1_000)).toBeCloseTo(0.49, 5);
    expect(place(it, 1_000 + 60 * MINUTE)).toBeCloseTo(0.51, 5);
    expect(place(it, 2_000 + 60 * MINUTE)).toBe(1);
  });
  test("never turns the order of times round", () => {
    let last = -1;
    for (let time = 0; time <= 62 * MINUTE; time += 777) {
      const x = place(it, time);
      expect(x).toBeGreaterThanOrEqual(last);
      last = x;
    }
  });
});

test.each([
  ["a pause that a person would not notice", [0, 20_000, 40_000], 0],
  ["a minute within hours of work", [...Array(1_000).keys()].map((n) => n * 25_000), 0],
  ["two pauses", [0, 1, 5 * MINUTE, 5 * MINUTE + 1, 15 * MINUTE], 2],
  ["one event", [5], 0],
  ["no event", [], 0],
  ["a clock that went back", [1_000, 500, 2_000], 0],
])("%s", (_, times, folds) => {
  const it = scale(...times);
  expect(it.folds.length).toBe(folds);
  expect(place(it, times.at(-1) ?? 0)).toBeGreaterThanOrEqual(0);
});

test("many pauses leave at least half of the room to the work", () => {
  const times = [...Array(400).keys()].flatMap((n) => [n * 10 * MINUTE, n * 10 * MINUTE + 10]);
  const it = scale(...times);
  const folded = it.folds.reduce((sum, fold) => sum + fold.width, 0);
  expect(it.folds.length).toBe(399);
  expect(folded).toBeLessThanOrEqual(0.5 + 1e-9);
  expect(it.corners.at(-1)?.x).toBe(1);
});
