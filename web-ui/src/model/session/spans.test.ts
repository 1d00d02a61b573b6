import { describe, expect, test } from "vitest";
import { asOf, rowsThen, type Span } from "./spans.ts";

function span(id: string, depth: number, firstSeq: number, lastSeq: number, more = {}): Span {
  return {
    id,
    parentId: "",
    depth,
    kind: id.split(":")[0] ?? "",
    name: id,
    start: firstSeq * 10,
    end: lastSeq * 10,
    firstSeq,
    lastSeq,
    status: "ok",
    detail: "exit 0",
    row: 0,
    size: 1,
    children: 0,
    isLast: false,
    isFolded: false,
    ...more,
  };
}

const then = (seq: number, calls: readonly (readonly [string, string])[] = []) => ({
  seq,
  time: seq * 10,
  calls: new Map(calls),
});

describe("a span of events 3 to 6", () => {
  const it = span("call:1.1", 2, 3, 6);
  test.each([
    [2, null],
    [3, "open"],
    [5, "open"],
    [6, "ok"],
    [9, "ok"],
  ])("after event %i it is %j", (seq, status) => {
    expect(asOf(it, then(seq))?.status ?? null).toBe(status);
  });
  test("says nothing of its end before it", () => {
    const open = asOf(it, then(4));
    expect([open?.end, open?.detail, open?.size]).toEqual([null, "", null]);
  });
  test("is as it is now when nobody looks back", () => {
    expect(asOf(it, null)).toBe(it);
  });
});

/** Steps, calls and what is in them, each now over: what was known of them in the middle. */
describe("of what was open then nothing of now is told", () => {
  const now = { size: 4, children: 3, detail: "tries 3; exit 0" };
  const open = { status: "open", end: null, size: null };
  const below = (id: string, parentId: string, firstSeq: number) => ({
    ...span(id, 3, firstSeq, firstSeq),
    parentId,
  });
  test.each([
    ["a step", span("step:1", 1, 3, 9, now), undefined, { ...open, detail: "", children: 3 }],
    [
      "a call tells what it was asked with",
      span("call:1.1", 2, 3, 9, now),
      undefined,
      { ...open, detail: '{"a":1}', children: 3 },
    ],
    [
      "a call that was not tried again yet has nothing to unfold",
      span("call:1.1", 2, 3, 9, now),
      below("attempt:1.1", "call:1.1", 7),
      { ...open, detail: '{"a":1}', children: 0 },
    ],
    [
      "a call that was tried again has",
      span("call:1.1", 2, 3, 9, now),
      below("attempt:1.1", "call:1.1", 5),
      { ...open, detail: '{"a":1}', children: 3 },
    ],
    [
      "a folded group may be looked into",
      span("call:1.1", 2, 3, 9, { ...now, isFolded: true }),
      below("call:1.2", "step:1", 7),
      { ...open, detail: '{"a":1}', children: 3, isFolded: true },
    ],
    [
      "another call",
      span("call:1.2", 2, 3, 9, now),
      undefined,
      { ...open, detail: "", children: 3 },
    ],
    [
      "a call that was over before a late report keeps its end, not its details",
      span("call:1.1", 2, 3, 40, { ...now, end: 45 }),
      undefined,
      { status: "ok", end: 45, size: null, detail: "" },
    ],
    ["what was over", span("call:1.1", 2, 3, 5, now), undefined, { ...now, status: "ok", end: 50 }],
  ])("%s", (_, it, next, shown) => {
    expect(asOf(it, then(5, [["1.1", '{"a":1}']]), next)).toMatchObject({
      ...shown,
      lastSeq: 5,
    });
  });
});

describe("rows at a moment", () => {
  const rows = [
    span("step:1", 1, 2, 6),
    span("model:1", 2, 2, 3),
    span("call:1.1", 2, 3, 6),
    span("call:1.2", 2, 3, 5),
    span("step:2", 1, 7, 9),
    span("model:2", 2, 7, 8),
  ];
  test.each([
    [2, 12],
    [3, 14],
    [6, 14],
    [7, 16],
  ])("after event %i there are %i", (seq, count) => {
    expect(rowsThen(rows, 10, then(seq))).toBe(count);
  });
});
