// The exact action that an approval is about, in the shape in which a person can judge it.

import type { Approval } from "./types.ts";
import { exactly, hiddenCount, visible } from "./visible.ts";

export interface Argument {
  readonly name: string;
  /** Texts as they are, all else as JSON. */
  readonly text: string;
}

export type Action =
  | { readonly type: "command"; readonly command: string; readonly rest: readonly Argument[] }
  | {
      readonly type: "edit";
      readonly path: string;
      readonly before: string;
      readonly after: string;
      readonly rest: readonly Argument[];
    }
  | {
      readonly type: "write";
      readonly path: string;
      readonly content: string;
      readonly rest: readonly Argument[];
    }
  | { readonly type: "other"; readonly rest: readonly Argument[] }
  /** Arguments that are no JSON object: shown as they are. */
  | { readonly type: "raw"; readonly text: string };

/** Reads a call's arguments. The names are those of the built-in tools; other tools may use them, too. */
export function actionOf(argumentsJson: string): Action {
  const fields = parseObject(argumentsJson);
  if (fields === null) return { type: "raw", text: argumentsJson };
  const rest = (...taken: string[]) =>
    [...fields]
      .filter(([name]) => !taken.includes(name))
      .map(([name, value]) => argument(name, value));
  const text = (name: string) => {
    const value = fields.get(name);
    return typeof value === "string" ? value : null;
  };
  const [command, path, content] = [text("command"), text("path"), text("content")];
  const [before, after] = [text("old_text"), text("new_text")];
  if (command !== null) return { type: "command", command, rest: rest("command") };
  if (path !== null && before !== null && after !== null) {
    return { type: "edit", path, before, after, rest: rest("path", "old_text", "new_text") };
  }
  if (path !== null && content !== null) {
    return { type: "write", path, content, rest: rest("path", "content") };
  }
  return { type: "other", rest: rest() };
}

function argument(name: string, value: unknown): Argument {
  return { name, text: typeof value === "string" ? value : JSON.stringify(value) };
}

/** Numbers with so many digits are not read exactly by a browser. */
const LONG_NUMBER = /[0-9]{16}|[0-9]\.[0-9]{15}|[0-9][eE]/;
const STRINGS = /"(?:[^"\\]|\\.)*"/g;

/** The fields of a JSON object; nothing when it is none, or when reading it would change a number. */
function parseObject(json: string): Map<string, unknown> | null {
  if (LONG_NUMBER.test(json.replace(STRINGS, ""))) return null;
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
    return new Map(Object.entries(value));
  } catch {
    return null;
  }
}

/** Longest name of an action on a button. */
const NAME_CHARS_MAX = 48;

/** What the button says that lets it run: ``Run `git push origin fix` ``, ``Edit `dates.py` ``. */
export function actionName(tool: string, action: Action): string {
  switch (action.type) {
    case "command":
      return `Run ${quoted(action.command)}`;
    case "edit":
      return `Edit ${quoted(action.path)}`;
    case "write":
      return `Write ${quoted(action.path)}`;
    case "other":
    case "raw":
      return `Run ${quoted(tool)}`;
  }
}

/** What is asked, in the words of its action. */
export function questionName(approval: Pick<Approval, "question" | "tool" | "arguments">): string {
  const name = actionName(visible(approval.tool), actionOf(approval.arguments));
  return approval.question === "what_happened" ? `What became of: ${name}` : name;
}

/** On one line; of a long one the middle is left out, since its end matters. */
function quoted(text: string): string {
  const line = exactly(text).replaceAll("\n", "⏎");
  if (line.length <= NAME_CHARS_MAX) return `\`${line}\``;
  const half = Math.floor((NAME_CHARS_MAX - 1) / 2);
  return `\`${line.slice(0, half)}…${line.slice(-half)}\``;
}

/** How many characters of the arguments would not be seen as what they are. */
export function hiddenIn(argumentsJson: string): number {
  const fields = parseObject(argumentsJson);
  if (fields === null) return hiddenCount(argumentsJson);
  let sum = 0;
  for (const [name, value] of fields)
    sum += hiddenCount(name) + hiddenCount(argument(name, value).text);
  return sum;
}
