// What went wrong, in words for the person.

import { Code, ConnectError } from "@connectrpc/connect";

export type FailureKind = "unreachable" | "not_found" | "refused" | "bad_input" | "other";

export interface Failure {
  readonly kind: FailureKind;
  /** The server says what is wrong and what to do; where there was no server, this does. */
  readonly words: string;
  /** The name of the code, as `docs/api.md` lists it. */
  readonly code: string;
}

export function failure(error: unknown): Failure {
  const it = ConnectError.from(error);
  const code = Code[it.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  const words = it.rawMessage;
  switch (it.code) {
    case Code.Unavailable:
    case Code.DeadlineExceeded:
    case Code.Unknown:
      // Also what a browser says for a connection that was refused.
      return { kind: "unreachable", words: reached(words), code };
    case Code.NotFound:
    case Code.OutOfRange:
      return { kind: "not_found", words, code };
    case Code.FailedPrecondition:
    case Code.AlreadyExists:
    case Code.PermissionDenied:
    case Code.Unauthenticated:
    case Code.Aborted:
      return { kind: "refused", words, code };
    case Code.InvalidArgument:
      return { kind: "bad_input", words, code };
    case Code.Canceled:
    case Code.ResourceExhausted:
    case Code.Unimplemented:
    case Code.Internal:
    case Code.DataLoss:
      return { kind: "other", words, code };
  }
}

/** Browsers call every broken connection something else; the person wants to know one thing. */
function reached(words: string): string {
  return /fetch|network|load failed|input stream/i.test(words) || words === ""
    ? "The server does not answer. Is `stepwell serve` running?"
    : words;
}
