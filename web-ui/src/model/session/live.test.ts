import { expect, test } from "vitest";
import { SILENT, withChunk, withEvent } from "./live.ts";

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
  expect(late.content).toEqual({ text: "h and day", isCut: true });
  const inTime = withChunk(withEvent(SILENT, "model_requested", ""), piece("content", "The"));
  expect(inTime.content).toEqual({ text: "The", isCut: false });
});
