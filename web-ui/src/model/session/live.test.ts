import { expect, test } from "vitest";
import { SILENT, withBreak, withChunk, withEvent, withMissed } from "./live.ts";

const piece = (kind: string, text: string, more = {}) => ({
  kind,
  text,
  step: 1,
  attempt: 1,
  callId: "",
  ...more,
});

test("pieces of one answer are put together, those of the next begin anew", () => {
  let it = withChunk(withChunk(SILENT, piece("content", "Hel")), piece("content", "lo"));
  expect(it.content.text).toBe("Hello");
  it = withChunk(it, piece("content", "Again", { attempt: 2 }));
  expect(it.content.text).toBe("Again");
});

test("each call has its own output", () => {
  let it = withChunk(SILENT, piece("output", "a", { callId: "1.1" }));
  it = withChunk(it, piece("output", "b", { callId: "1.2" }));
  it = withEvent(it, "tool_finished", "1.1");
  expect([it.outputs.get("1.1"), it.outputs.get("1.2")?.text]).toEqual([undefined, "b"]);
});

test.each(["model_replied", "model_failed", "session_finished"])("%s holds the whole", (type) => {
  const it = withEvent(withChunk(SILENT, piece("content", "x")), type, "");
  expect(it.content.text).toBe("");
});

test("a reset makes what was said void", () => {
  const it = withChunk(withChunk(SILENT, piece("content", "wrong")), piece("reset", ""));
  expect(it.content.text).toBe("");
});

test("of an endless output the end is kept", () => {
  let it = SILENT;
  for (let n = 0; n < 200; n += 1) {
    it = withChunk(it, piece("output", `${n}:${"x".repeat(1_000)}`, { callId: "1.1" }));
  }
  const kept = it.outputs.get("1.1");
  expect(kept?.isCut).toBe(true);
  expect(kept?.text.length).toBe(64 * 1024);
});

test("who comes late is told that something is missing", () => {
  const late = withChunk(SILENT, piece("content", "h and day"));
  expect(late.content).toMatchObject({ text: "h and day", isCut: true });
  const inTime = withChunk(withEvent(SILENT, "model_requested", ""), piece("content", "The"));
  expect(inTime.content).toMatchObject({ text: "The", isCut: false });
});

const output = (text: string) => piece("output", text, { callId: "1.1" });

test.each([
  ["tool_scheduled", false],
  ["tool_dispatched", false],
  ["approval_decided", true],
])("after %s, output misses its beginning: %j", (type, isCut) => {
  const it = withChunk(withEvent(SILENT, type, "1.1"), output("line 1"));
  expect(it.outputs.get("1.1")).toMatchObject({ text: "line 1", isCut });
});

test("what came before the connection broke stays until the outcome comes", () => {
  let it = withChunk(withEvent(SILENT, "tool_dispatched", "1.1"), output("line 1\n"));
  it = withChunk(it, piece("content", "I look"));
  it = withBreak(it);
  expect(it.content).toEqual({ text: "", isCut: true, broken: "I look" });
  it = withChunk(it, output("line 9\n"));
  expect(it.outputs.get("1.1")).toEqual({ text: "line 9\n", isCut: true, broken: "line 1\n" });
  it = withBreak(withBreak(it));
  expect(it.outputs.get("1.1")?.broken).toBe("line 1\n\n…\nline 9\n");
  it = withEvent(it, "tool_lost", "1.1");
  expect(it.outputs.get("1.1")?.broken).toContain("line 1");
  expect(withEvent(it, "tool_finished", "1.1").outputs.has("1.1")).toBe(false);
  expect(withEvent(it, "tool_dispatched", "1.1").outputs.get("1.1")?.broken).toBe("");
  expect(withEvent(it, "model_failed", "").content.broken).toBe("");
});

test.each([
  [["tool_lost", "approval_requested"], "I look", "line 1"],
  [["model_failed", "model_requested"], "", "line 1"],
  [["tool_finished", "session_finished"], "", undefined],
])("what %j say after a break", (types, content, said) => {
  let it = withChunk(withChunk(SILENT, output("line 1")), piece("content", "I look"));
  it = withMissed(withBreak(it), new Set(types));
  expect([it.content.broken, it.outputs.get("1.1")?.broken]).toEqual([content, said]);
  expect(it.isLate).toBe(true);
});
