// Addresses of the views: the only place that knows how they are written.

/** A moment of a session: `/s/ID` is now, `/s/ID@SEQ` is the past. */
export interface Moment {
  readonly sessionId: string;
  readonly seq: number | null;
}

export const address = {
  /** `filter` as it stands behind the question mark. */
  sessions: (filter = "") => (filter === "" ? "/" : `/?${filter}`),
  session: (sessionId: string, seq: number | null = null) =>
    seq === null
      ? `/s/${encodeURIComponent(sessionId)}`
      : `/s/${encodeURIComponent(sessionId)}@${seq}`,
  approvals: () => "/approvals",
  approval: (approvalId: string) => `/approvals?id=${encodeURIComponent(approvalId)}`,
  agents: () => "/agents",
  workers: () => "/workers",
  newSession: (agent = "") => (agent === "" ? "/new" : `/new?agent=${encodeURIComponent(agent)}`),
  compare: (a: string, b: string) => `/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`,
};

/** Reads what follows `/s/`. A seq that is no positive number is no moment; zeros before it say nothing. */
export function parseMoment(text: string): Moment | null {
  const match = /^([^@]+)(?:@0*([1-9][0-9]{0,14}))?$/.exec(text);
  if (match === null) return null;
  const [, sessionId = "", seq] = match;
  return { sessionId, seq: seq === undefined ? null : Number(seq) };
}

/** The moment that a path leads to, if it leads to one. */
export function momentOf(path: string): Moment | null {
  const text = /^\/s\/([^/]+)\/?$/.exec(path)?.[1];
  if (text === undefined) return null;
  try {
    return parseMoment(decodeURIComponent(text));
  } catch {
    // A lone `%`: no address of ours.
    return null;
  }
}
