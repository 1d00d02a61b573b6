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
  const counts = (strip: Strip, width: number) => {
    const all = [...columns(strip, width)];
    return Array.from({ length: width }, (_, at) =>
      Object.fromEntries(
        FAMILIES.map((family, of) => [family, all[at * FAMILIES.length + of] ?? 0] as const).filter(
          ([, count]) => count > 0,
        ),
      ),
    );
  };
  test("fewer events than columns: each has several", () => {
    expect(counts(strip("ct"), 4)).toEqual([
      { message: 1 },
      { message: 1 },
      { tool: 1 },
      { tool: 1 },
    ]);
  });
  test("more events than columns: each event is counted once", () => {
    const it = withEvent(strip("rt".repeat(500)), "model_failed", 2, false);
    const found = counts(it, 10);
    expect(found[0]).toEqual({ model: 50, tool: 50 });
    expect(found[9]).toEqual({ model: 50, tool: 50, error: 1 });
    expect(columns(it, 7).reduce((sum, count) => sum + count, 0)).toBe(1_001);
  });
  test("nothing has no columns to fill", () => {
    expect(counts(EMPTY_STRIP, 2)).toEqual([{}, {}]);
    expect(columns(strip("c"), 0).length).toBe(0);
  });
});
