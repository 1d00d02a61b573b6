// A session that is about to be started.

import type { CreateRequest } from "../../api/queries.ts";
import { shellWord } from "../../model/shell.ts";

export interface NewDraft {
  readonly task: string;
  readonly agent: string;
  readonly by: string;
  readonly title: string;
  /** `key=value`, separated by blanks. */
  readonly labels: string;
  readonly workspace: string;
  readonly paused: boolean;
}

export const EMPTY_DRAFT: NewDraft = {
  task: "",
  agent: "",
  by: "",
  title: "",
  labels: "",
  workspace: "",
  paused: false,
};

function labelWords(draft: NewDraft): string[] {
  return draft.labels.split(/\s+/).filter((it) => it !== "");
}

/** What keeps it from being started; the server checks the rest. */
export function problemOf(draft: NewDraft): string | null {
  if (draft.task.trim() === "") return "Say what shall be done.";
  const odd = labelWords(draft).find((it) => !/^[^=]+=/.test(it));
  return odd === undefined ? null : `A label is key=value: ${odd} is not.`;
}

export function toRequest(draft: NewDraft, clientKey: string): CreateRequest {
  const labels = labelWords(draft).map((it) => {
    const at = it.indexOf("=");
    return [it.slice(0, at), it.slice(at + 1)] as const;
  });
  return {
    task: draft.task,
    agent: draft.agent,
    agentVersion: 0,
    title: draft.title.trim(),
    labels,
    workspace: draft.workspace.trim(),
    paused: draft.paused,
    submittedBy: draft.by.trim(),
    clientKey,
  };
}

/** The same on the command line. */
export function submitLine(draft: NewDraft): string {
  const words = ["stepwell submit", "--agent", shellWord(draft.agent)];
  if (draft.title.trim() !== "") words.push("--title", shellWord(draft.title.trim()));
  for (const label of labelWords(draft)) words.push("--label", shellWord(label));
  if (draft.workspace.trim() !== "") words.push("--workspace", shellWord(draft.workspace.trim()));
  if (draft.paused) words.push("--paused");
  words.push(draft.task.trim() === "" ? "TASK" : shellWord(draft.task));
  return words.join(" ");
}
