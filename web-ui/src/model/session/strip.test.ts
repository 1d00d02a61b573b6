import { describe, expect, test } from "vitest";
import { FAMILIES } from "./family.ts";
import {
  columns,
  EMPTY_STRIP,
  type Strip,
  seek,
  stepAt,
  timeAt,
  typeAt,
  withEvent,
  withPage,
} from "./strip.ts";

const TYPES = ["session_created", "model_requested", "model_replied", "tool_finished"];

/** One letter an event: `c` created, `M` asked in a new step, `m` asked again, `r` replied, `t` tool. */
function strip(story: string): Strip {
  const letters = ["c", "m", "r", "t"];
  const marks = [...story].map((it) => (it === "M" ? 0x81 : letters.indexOf(it)));
  const page = {
    marks: Uint8Array.from(marks),
    types: TYPES,
    firstTime: 1_000,
    gaps: marks.map((_, at) => (at === 0 ? 0 : 10)),
  };
  return withPage(EMPTY_STRIP, page);
}

test("types, times and steps are those of the page", () => {
  const it = strip("cMrtMr");
  expect([1, 2, 6].map((seq) => typeAt(it, seq))).toEqual([
    "session_created",
    "model_requested",
    "model_replied",
  ]);
  expect([timeAt(it, 1), timeAt(it, 6), timeAt(it, 99)]).toEqual([1_000, 1_050, 1_050]);
  expect([0, 1, 2, 4, 5, 6].map((seq) => stepAt(it, seq))).toEqual([0, 0, 1, 1, 2, 2]);
  expect([typeAt(it, 0), typeAt(it, 7)]).toEqual(["", ""]);
});

test("an older strip stays as it was while it grows, also by types that were not known", () => {
  const before = strip("cM");
  const after = withEvent(before, "brand_new", 1_500, false);
  expect([before.length, after.length, typeAt(after, 3)]).toEqual([2, 3, "brand_new"]);
  let it = EMPTY_STRIP;
  for (let n = 0; n < 5_000; n += 1) it = withEvent(it, TYPES[n % 4] ?? "", n, n % 4 === 1);
  expect([it.length, timeAt(it, 5_000), stepAt(it, 5_000)]).toEqual([5_000, 4_999, 1_250]);
});

describe("seeking", () => {
  const it = strip("cMrtMrt");
  test.each([
    [3, "event", 1, 4],
    [1, "event", -1, null],
    [7, "event", 1, null],
    [1, "model", 1, 3],
    [3, "model", 1, 6],
    [6, "model", -1, 3],
    [3, "model", -1, null],
    [1, "tool", 1, 4],
    [7, "tool", -1, 4],
  ] as const)("from event %i by %s %i is %j", (seq, unit, by, found) => {
    expect(seek(it, seq, unit, by)).toBe(found);
  });
});

describe("columns", () => {
  const family = (name: (typeof FAMILIES)[number]) => FAMILIES.indexOf(name);
  test("fewer events than columns: each is wide", () => {
    expect([...columns(strip("ct"), 4)]).toEqual(
      ["message", "message", "tool", "tool"].map((it) => family(it as "tool")),
    );
  });
  test("more events than columns: what is rare is seen", () => {
    const calm = strip("rt".repeat(500));
    const it = withEvent(calm, "model_failed", 2, false);
    const found = columns(it, 10);
    expect([found.length, found[0], found[9]]).toEqual([10, family("tool"), family("error")]);
  });
  test("nothing has no columns to fill", () => {
    expect([...columns(EMPTY_STRIP, 3)]).toEqual([0, 0, 0]);
    expect(columns(strip("c"), 0).length).toBe(0);
  });
});
