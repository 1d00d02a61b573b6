import { expect, test } from "vitest";
import { address, momentOf, parseMoment } from "./address.ts";

test.each([
  ["0ABC", { sessionId: "0ABC", seq: null }],
  ["0ABC@17", { sessionId: "0ABC", seq: 17 }],
  ["0ABC@00050", { sessionId: "0ABC", seq: 50 }],
  ["0ABC@0", null],
  ["0ABC@000", null],
  ["0ABC@x", null],
  ["0ABC@1@2", null],
  ["", null],
])("the moment %s", (text, moment) => {
  expect(parseMoment(text)).toEqual(moment);
});

test("a moment's address is read back", () => {
  expect(parseMoment(address.session("0ABC", 9).slice("/s/".length))).toEqual({
    sessionId: "0ABC",
    seq: 9,
  });
});

test.each([
  [address.session("0ABC", 9), { sessionId: "0ABC", seq: 9 }],
  ["/s/0ABC%4017", { sessionId: "0ABC", seq: 17 }],
  ["/s/0ABC/", { sessionId: "0ABC", seq: null }],
  ["/s/%", null],
  ["/s/", null],
  ["/approvals", null],
])("the path %s", (path, moment) => {
  expect(momentOf(path)).toEqual(moment);
});
