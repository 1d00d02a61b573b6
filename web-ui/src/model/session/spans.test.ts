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

const then = (seq: number) => ({ seq, time: seq * 10 });

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

test("a late report does not open a call again", () => {
  const it = span("call:1.1", 2, 3, 40, { end: 60 });
  expect(asOf(it, then(20))?.status).toBe("ok");
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
