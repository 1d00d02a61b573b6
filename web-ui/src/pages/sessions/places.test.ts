import { expect, test } from "vitest";
import { createPlaces, TOP } from "./places.ts";

test("each entry has its own place, and what is not said stays", () => {
  const places = createPlaces();
  expect(places.of("a")).toEqual(TOP);
  places.keep("a", { top: 900 });
  places.keep("a", { chosen: "s1" });
  places.keep("b", { chosen: "s2" });
  expect(places.of("a")).toEqual({ top: 900, chosen: "s1" });
  expect(places.of("b")).toEqual({ top: 0, chosen: "s2" });
});

test("only so many are remembered, those that were used last", () => {
  const places = createPlaces();
  for (let at = 0; at < 100; at += 1) places.keep(`${at}`, { top: at });
  places.keep("0", { chosen: "s" });
  places.keep("new", { top: 7 });
  expect(places.of("1")).toEqual(TOP);
  expect(places.of("0")).toEqual({ top: 0, chosen: "s" });
  expect(places.of("2").top).toBe(2);
  expect(places.of("new").top).toBe(7);
});
