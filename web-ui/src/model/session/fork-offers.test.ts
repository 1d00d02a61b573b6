import { describe, expect, test } from "vitest";
import { agentOf, begun, callWords, kindsOf, type Moment, offersAt } from "./fork-offers.ts";
import type { Message, Role } from "./messages.ts";
import { EMPTY_STRIP, withEvent } from "./strip.ts";

const EVENTS = [
  "session_created",
  "model_requested",
  "model_failed",
  "model_requested",
  "model_replied",
  "approval_requested",
  "tool_finished",
  "model_requested",
  "model_replied",
];
const STRIP = EVENTS.reduce((strip, type) => withEvent(strip, type, 1, false), EMPTY_STRIP);

const said = (role: Role, step: number, text: string, more: Partial<Message> = {}): Message => ({
  number: 0,
  role,
  text,
  calls: [],
  seq: 1,
  step,
  callId: "",
  ...more,
});
const call = (name: string, args: string) => ({ id: "w", name, arguments: args });

const TAIL = [
  said("system", 0, "Work."),
  said("user", 0, "Mend it."),
  said("assistant", 1, "I look.", {
    calls: [call("ls", "{}"), call("sh", '{"command":"git st"}')],
  }),
  said("tool", 1, "a.txt", { callId: "1.1" }),
  said("tool", 1, "clean", { callId: "1.2" }),
  said("assistant", 2, "I push.", { calls: [call("sh", '{"command":"git push"}')] }),
];
const OPEN = [{ callId: "2.1", tool: "sh", arguments: '{"command":"git push"}' }];
const moment = (openCalls: Moment["openCalls"]): Moment => ({
  tail: TAIL,
  openCalls,
  agentJson: "{}",
});

describe.each([
  [1, [], ["message"]],
  [2, [], ["reply", "message"]],
  [3, [], ["message"]],
  [4, [], ["reply", "message"]],
  [5, OPEN, ["result", "arguments", "message"]],
  [6, OPEN, ["result", "message"]],
  [7, [], ["message"]],
  [8, [], ["reply", "message"]],
  [9, OPEN, ["result", "arguments", "message"]],
])("at event %i, with %j open", (at, open, kinds) => {
  const offers = offersAt(moment(open), STRIP, at);
  test("only what fits there is offered", () => expect(kindsOf(offers)).toEqual(kinds));
  test("the awaited reply has no number", () => {
    if (kinds.includes("reply")) expect(begun("reply", offers).step).toBe(0);
  });
});

describe("where the server finds the moment", () => {
  const offers = offersAt(moment(OPEN), STRIP, null);
  test("all calls are offered, the newest first, each once", () => {
    expect(offers.results.map((it) => it.callId)).toEqual(["2.1", "1.2", "1.1"]);
    expect(kindsOf(offers)).toEqual(["result", "arguments", "reply", "message"]);
  });
  test.each([
    ["result", "", { callId: "2.1", text: "" }],
    ["result", "1.1", { callId: "1.1", text: "a.txt" }],
    ["result", "9.9", { callId: "9.9", text: "" }],
    ["arguments", "", { callId: "2.1", text: '{"command":"git push"}' }],
    ["arguments", "1.1", { callId: "1.1", text: "{}" }],
    ["reply", "", { step: 2, text: "I push." }],
    ["message", "1.1", { callId: "", text: "" }],
  ] as const)("%s of %j begins with what it was", (kind, named, wanted) => {
    expect(begun(kind, offers, named)).toMatchObject({ kind, ...wanted });
  });
  test("a call is named by what it does", () => {
    expect(offers.results.map(callWords)).toEqual(["2.1 sh: git push", "1.2 sh: git st", "1.1 ls"]);
  });
});

test.each([
  ['{"model":{"name":"qwen"},"instructions":"Work."}', { model: "qwen", instructions: "Work." }],
  ['{"model":{}}', { model: "", instructions: "" }],
  ["", { model: "", instructions: "" }],
])("model and instructions of %s", (json, wanted) => expect(agentOf(json)).toEqual(wanted));
