// What a person can answer, and what the same is on the command line.

import { shellWord } from "../../model/shell.ts";
import type { Approval, Decision } from "../../model/types.ts";
import { person } from "../../model/words.ts";

/** The answer that is being written; `none` while the person only looks. */
export type Draft =
  | { readonly type: "none" }
  | { readonly type: "deny"; readonly reason: string }
  | { readonly type: "edit"; readonly arguments: string }
  | { readonly type: "happened"; readonly output: string }
  | { readonly type: "failed"; readonly reason: string };

/** The command that gives the draft's answer; for `none` the one that lets it run, or says it did not. */
export function commandLine(approval: Approval, draft: Draft): string {
  const id = shellWord(approval.id);
  switch (draft.type) {
    case "none":
      return approval.question === "may_run"
        ? `stepwell approve ${id}`
        : `stepwell resolve ${id} did-not-happen`;
    case "deny":
      return `stepwell deny ${id}${option("--reason", draft.reason)}`;
    case "edit":
      return `stepwell approve ${id}${option("--arguments", draft.arguments)}`;
    case "happened":
      return `stepwell resolve ${id} happened${option("--output", draft.output)}`;
    case "failed":
      return `stepwell resolve ${id} failed${option("--reason", draft.reason)}`;
  }
}

function option(name: string, value: string): string {
  return value.trim() === "" ? "" : ` ${name} ${shellWord(value)}`;
}

/** What is wrong with edited arguments; nothing when the server may be asked. */
export function argumentsProblem(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? null
      : "Arguments are one JSON object: { … }";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** What became of an approval that is no longer open, as one sentence begins. */
export function outcome(approval: Approval): string {
  const by = approval.decidedBy === "" ? "" : ` by ${person(approval.decidedBy)}`;
  switch (approval.status) {
    case "open":
      return "Open";
    case "approved":
      return approval.question === "may_run" ? `Approved${by}` : `Answered${by}`;
    case "denied":
      return approval.question === "may_run" ? `Denied${by}` : `Answered${by}`;
    case "expired":
      return "Expired before anybody answered";
    case "void":
      return "No longer asked: the session went on without it";
  }
}

/** What the person was told when their answer was taken. */
export function taken(decision: Decision): string {
  switch (decision) {
    case "approve":
      return "It may run.";
    case "approve_for_session":
      return "It may run, and so may later calls of this tool in this session.";
    case "deny":
      return "It will not run; the model is told why.";
    case "happened":
      return "Recorded as done, with the result that you gave.";
    case "did_not_happen":
      return "It runs now.";
    case "failed":
      return "Recorded as failed; the model is told why.";
  }
}
