// Messages to the model, from the JSON that is sent.

export type Role = "system" | "user" | "assistant" | "tool" | "other";

export interface MessageCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface Message {
  /** Place in the request, from 0. */
  readonly number: number;
  readonly role: Role;
  readonly text: string;
  readonly calls: readonly MessageCall[];
  /** The event that put it into the request. */
  readonly seq: number;
  readonly step: number;
  /** The tool call whose observation it is; empty for none. */
  readonly callId: string;
}

export interface Origin {
  readonly seq: number;
  readonly step: number;
  readonly callId: string;
}

const ROLES: readonly string[] = ["system", "user", "assistant", "tool"];

/** What cannot be read as a message is shown as it is. */
export function message(json: string, number: number, origin: Origin): Message {
  const it = parsed(json);
  if (it === null) return { number, role: "other", text: json, calls: [], ...origin };
  const role = typeof it["role"] === "string" && ROLES.includes(it["role"]) ? it["role"] : "other";
  const calls = Array.isArray(it["tool_calls"]) ? it["tool_calls"] : [];
  return {
    number,
    role: role as Role,
    text: text(it["content"]),
    calls: calls.map(call),
    ...origin,
  };
}

function parsed(json: string): Record<string, unknown> | null {
  try {
    const it: unknown = JSON.parse(json);
    return typeof it === "object" && it !== null ? (it as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function text(content: unknown): string {
  if (typeof content === "string") return content;
  return content === null || content === undefined ? "" : JSON.stringify(content);
}

function call(it: unknown): MessageCall {
  const { id, function: what } = (it ?? {}) as { id?: unknown; function?: unknown };
  const { name, arguments: given } = (what ?? {}) as { name?: unknown; arguments?: unknown };
  return { id: text(id), name: text(name), arguments: text(given) };
}

/** The argument that says most about a call, for one line. */
export function gist(argumentsJson: string): string {
  const it = parsed(argumentsJson);
  if (it === null) return argumentsJson;
  for (const name of ["command", "path", "file", "query", "url", "question"]) {
    if (typeof it[name] === "string") return it[name];
  }
  const words = JSON.stringify(it);
  return words === "{}" ? "" : words;
}
