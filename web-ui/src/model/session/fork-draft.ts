// A fork in the making: what a person filled in so far.

export type ChangeKind = "result" | "arguments" | "reply" | "message";

export interface DraftChange {
  readonly kind: ChangeKind;
  /** The call, for `result` and `arguments`. */
  readonly callId: string;
  /** For `reply`; 0 for the step that is open at the moment of the fork. */
  readonly step: number;
  readonly isError: boolean;
  readonly text: string;
}

export interface ForkDraft {
  /** The last event that both share; `null` lets the server find it from the changes. */
  readonly at: number | null;
  readonly changes: readonly DraftChange[];
  /** `null` for what is as it was. */
  readonly title: string | null;
  readonly model: string | null;
  readonly instructions: string | null;
  /** Empty for the same folder. */
  readonly workspace: string;
  readonly isHeld: boolean;
}

export function emptyDraft(at: number | null): ForkDraft {
  const same = { title: null, model: null, instructions: null };
  return { at, changes: [], ...same, workspace: "", isHeld: false };
}

export function withChange(draft: ForkDraft, at: number, change: Partial<DraftChange>): ForkDraft {
  const changes = draft.changes.map((it, place) => (place === at ? { ...it, ...change } : it));
  return { ...draft, changes };
}

export const KIND_WORDS: Record<ChangeKind, string> = {
  result: "another result of a call",
  arguments: "other arguments of a call",
  reply: "another reply of the model",
  message: "a message",
};

export function needsCall(kind: ChangeKind): boolean {
  return kind === "result" || kind === "arguments";
}

/** What is still missing, in words; `null` when the server can be asked. */
export function missing(draft: ForkDraft): string | null {
  for (const [at, it] of draft.changes.entries()) {
    const where = `Change ${at + 1}`;
    if (needsCall(it.kind) && !/^\d+\.\d+$/.test(it.callId))
      return `${where}: name the call, for example 3.1.`;
    if (it.kind === "arguments" && !isObject(it.text))
      return `${where}: the arguments must be one JSON object.`;
    if (it.kind === "reply" && draft.at === null && it.step === 0)
      return `${where}: name the step, for example 3.`;
    if (it.kind === "message" && it.text.trim() === "") return `${where}: the message is empty.`;
  }
  for (const [name, text] of Object.entries({
    model: draft.model,
    instructions: draft.instructions,
    title: draft.title,
  })) {
    if (text?.trim() === "") return `The ${name} cannot be empty: leave it as it was.`;
  }
  return null;
}

function isObject(text: string): boolean {
  try {
    const it: unknown = JSON.parse(text);
    return typeof it === "object" && it !== null && !Array.isArray(it);
  } catch {
    return false;
  }
}

/** The line of the command line that makes the same fork. */
export function forkLine(
  sessionId: string,
  draft: ForkDraft,
  word: (text: string) => string,
): string {
  const parts = ["stepwell fork", sessionId];
  if (draft.at !== null) parts.push(`--at ${draft.at}`);
  for (const it of draft.changes) {
    const options: Record<ChangeKind, string> = {
      result: `${it.isError ? "--error" : "--result"} ${word(`${it.callId}=${it.text}`)}`,
      arguments: `--arguments ${word(`${it.callId}=${it.text}`)}`,
      reply: `--reply ${word(`${it.step}=${it.text}`)}`,
      message: `--message ${word(it.text)}`,
    };
    parts.push(options[it.kind]);
  }
  if (draft.model !== null) parts.push(`--model ${word(draft.model)}`);
  if (draft.instructions !== null) parts.push(`--instructions ${word(draft.instructions)}`);
  if (draft.title !== null) parts.push(`--title ${word(draft.title)}`);
  if (draft.workspace !== "") parts.push(`--workspace ${word(draft.workspace)}`);
  if (draft.isHeld) parts.push("--paused");
  return parts.join(" ");
}
