import { describe, expect, test } from "vitest";
import { details, payload } from "./details.ts";
import { emptyDraft, forkLine, missing } from "./fork-draft.ts";
import { indented } from "./indent.ts";
import { gist, message } from "./messages.ts";

test.each([
  ['{"a":1,"b":[true,null]}', '{\n  "a": 1,\n  "b": [\n    true,\n    null\n  ]\n}'],
  ['{ "empty" : { } , "list":[ ] }', '{\n  "empty": {},\n  "list": []\n}'],
  ['{"n":12345678901234567890,"x":1.0}', '{\n  "n": 12345678901234567890,\n  "x": 1.0\n}'],
  ['{"t":"a,b:{c}\\"[\\\\"}', '{\n  "t": "a,b:{c}\\"[\\\\"\n}'],
  ['"text"', '"text"'],
  ["{not json", "{not json"],
])("%s is laid out", (json, lines) => {
  expect(indented(json)).toBe(lines);
});

test("laying out takes time in proportion to the text", () => {
  const json = `[${"[[1],{}],".repeat(20_000)}0]`;
  expect(indented(json).replace(/\s/g, "")).toBe(json);
});

describe("a message", () => {
  const origin = { seq: 4, step: 1, callId: "" };
  test("of the model has its calls", () => {
    const json =
      '{"role":"assistant","content":null,"tool_calls":[{"id":"w1","type":"function","function":{"name":"shell","arguments":"{\\"command\\":\\"ls\\"}"}}]}';
    const it = message(json, 2, origin);
    expect(it).toMatchObject({ role: "assistant", text: "", number: 2, seq: 4 });
    expect(it.calls).toEqual([{ id: "w1", name: "shell", arguments: '{"command":"ls"}' }]);
  });
  test.each([
    ["no json at all", "other", "no json at all"],
    ['{"role":"root","content":"x"}', "other", "x"],
    ['{"role":"user","content":["a"]}', "user", '["a"]'],
    ['{"role":"tool"}', "tool", ""],
  ])("%s is shown as what it is", (json, role, text) => {
    expect(message(json, 0, origin)).toMatchObject({ role, text });
  });
});

test.each([
  ['{"command":"git push"}', "git push"],
  ['{"n":1}', '{"n":1}'],
  ["{}", ""],
  ["oops", "oops"],
])("the gist of %s", (json, words) => {
  expect(gist(json)).toBe(words);
});

describe("details of a call", () => {
  const event = (seq: number, type: string, body: object, actor = "engine") => ({
    seq,
    time: seq,
    type,
    schema: 1,
    cause: seq,
    actor,
    bodyJson: JSON.stringify(body),
  });
  const events = [
    event(3, "model_replied", {
      content: "",
      tool_calls: [
        { call_id: "1.1", name: "ship", arguments: '{"order":7}' },
        { call_id: "1.2", name: "look", arguments: "{}" },
      ],
    }),
    event(4, "approval_requested", {
      approval_id: 4,
      call_id: "1.1",
      question: "may_run",
      rule: "writes ask",
    }),
    event(5, "approval_decided", { approval_id: 4, decision: "approve" }, "person:ada"),
    event(6, "tool_lost", { attempt: 1, reason: "gone" }),
    event(7, "tool_finished", { attempt: 2, outcome: "ok", output: "done", duration_ms: 12 }),
  ];
  const it = details(events, "1.1");
  test("has its own arguments, not its neighbour's", () => {
    expect([it.tool, it.arguments?.text, it.reply]).toEqual(["ship", '{"order":7}', null]);
  });
  test("has every attempt", () => {
    expect(it.results.map((one) => [one.attempt, one.ending, one.output.text])).toEqual([
      [1, "lost", "gone"],
      [2, "ok", "done"],
    ]);
  });
  test("says who allowed it", () => {
    const approval = { callId: "1.1", decision: "approve", by: "person:ada" };
    expect(it.approvals).toMatchObject([approval]);
  });
  test("has no decision while none is made", () => {
    expect(details(events.slice(0, 2), "1.1").approvals).toMatchObject([{ decision: "", by: "" }]);
  });
  test("says until when it sleeps", () => {
    const timer = event(8, "timer_started", { timer: "sleep:1.1", due_at: 77_000 });
    expect(details([timer], "").dueAt).toEqual([77_000]);
  });
  test("a content that cannot be read hides nothing else", () => {
    const broken = { ...event(8, "tool_finished", {}), bodyJson: "{" };
    expect(details([...events, broken], "1.1").results.length).toBe(3);
  });
});

test("a text that lies beside its event", () => {
  expect(payload({ blob: "ab", bytes: 99, preview: "xy" })).toEqual({
    text: "xy",
    blob: "ab",
    bytes: 99,
  });
});

describe("a fork", () => {
  const change = {
    kind: "result",
    callId: "3.1",
    step: 0,
    isError: false,
    text: "it's ok",
  } as const;
  test("is a line of the command line", () => {
    const draft = { ...emptyDraft(17), changes: [change], isHeld: true };
    expect(forkLine("ID", draft, (word) => `<${word}>`)).toBe(
      "stepwell fork ID --at 17 --result <3.1=it's ok> --paused",
    );
  });
  test.each([
    [{ ...change, callId: "" }, "Change 1: name the call, for example 3.1."],
    [
      { ...change, kind: "arguments" as const, text: "[]" },
      "Change 1: the arguments must be one JSON object.",
    ],
    [{ ...change, kind: "message" as const, text: " " }, "Change 1: the message is empty."],
    [change, null],
  ])("%j", (it, problem) => {
    expect(missing({ ...emptyDraft(null), changes: [it] })).toBe(problem);
  });
});
