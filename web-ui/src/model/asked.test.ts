import { expect, test } from "vitest";
import { chosenApproval, followed, inOrder, questionOf, questions, takesMessage } from "./asked.ts";
import type { Approval, ApprovalStatus } from "./types.ts";

const approval = (id: string, callId: string, status: ApprovalStatus = "open"): Approval => ({
  id,
  sessionId: "S",
  callId,
  question: "may_run",
  tool: "shell",
  arguments: "{}",
  digest: "d",
  rule: "",
  status,
  requestedAt: 0,
  expiresAt: null,
  decidedBy: "",
  decidedAt: null,
  reason: "",
});

test("approvals come in the order of their calls", () => {
  const all = [approval("S.9", "2.10"), approval("S.8", "2.9"), approval("S.12", "1.3")];
  expect(inOrder(all).map((it) => it.callId)).toEqual(["1.3", "2.9", "2.10"]);
});

test.each([
  ["call:2.9", "S.8"],
  ["approval:12", "S.12"],
  ["approval:1", undefined],
  ["call:2.9/1", undefined],
  ["session", undefined],
  [null, undefined],
])("the span %s is about the approval %s", (spanId, id) => {
  const all = [approval("S.8", "2.9"), approval("S.12", "1.3")];
  expect(chosenApproval(all, spanId)?.id).toBe(id);
});

test.each([
  ['{"question":"Which\\nfolder?"}', "Which\nfolder?"],
  ['{"question":7}', '{"question":7}'],
  ["{", "{"],
  ["null", "null"],
])("the question of %s", (given, text) => {
  expect(questionOf(given)).toBe(text);
});

test("only calls that wait for an answer ask", () => {
  const call = (callId: string, status: string) => ({
    callId,
    status,
    arguments: `{"question":"${callId}?"}`,
  });
  const all = [
    call("1.2", "awaiting_answer"),
    call("1.3", "sleeping"),
    call("1.1", "awaiting_answer"),
  ];
  expect(questions(all).map((it) => it.text)).toEqual(["1.1?", "1.2?"]);
});

test("an approval is followed from open to answered, without a hole between", () => {
  const [open, denied] = [approval("S.4", "1.1"), approval("S.4", "1.1", "denied")];
  expect(followed("S.4", [open], [], null)).toEqual({ approval: open, isSettled: false });
  expect(followed("S.4", [], [], open)).toEqual({ approval: open, isSettled: true });
  expect(followed("S.4", [open], [denied], open)).toEqual({ approval: denied, isSettled: false });
  expect(followed("S.4", [], [], denied)).toEqual({ approval: denied, isSettled: false });
  expect(followed("S.5", [], [], open)).toBeNull();
});

test.each([
  ["waiting_input", false, [], "{}", true],
  ["paused", true, [], '{"interactive":true}', true],
  ["paused", true, [], "{}", false],
  ["thinking", false, [], '{"interactive":true}', false],
  ["waiting_input", false, ["awaiting_answer"], "{}", false],
] as const)(
  "%s, held %j, calls %j, agent %s: takes a message %j",
  (status, isHeld, calls, agentJson, is) => {
    const openCalls = calls.map((it) => ({ callId: "1.1", status: it, arguments: "{}" }));
    expect(takesMessage({ session: { status }, isHeld, openCalls, agentJson })).toBe(is);
  },
);
