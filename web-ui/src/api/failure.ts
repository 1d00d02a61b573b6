// What went wrong, in words for the person.

import { Code, ConnectError } from "@connectrpc/connect";

export type FailureKind = "unreachable" | "not_found" | "refused" | "bad_input" | "other";

export interface Failure {
  readonly kind: FailureKind;
  /** The server says what is wrong and what to do; where there was no server, this does. */
  readonly words: string;
  /** The name of the code, as `docs/api.md` lists it; empty when no server said it. */
  readonly code: string;
}

const NO_ANSWER = "The server does not answer. Is `stepwell serve` running?";

export function failure(error: unknown): Failure {
  const it = ConnectError.from(error);
  const code = Code[it.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  const words = it.rawMessage;
  switch (it.code) {
    case Code.Unavailable:
      return { kind: "unreachable", words, code };
    case Code.DeadlineExceeded:
    case Code.Unknown:
      // What a browser says for a connection that was refused or broke, each in words of its own.
      return { kind: "unreachable", words: NO_ANSWER, code: "" };
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

/** Whether the session, or whatever was asked for, is not there: a moment that is not is another thing. */
export function isNotFound(error: unknown): boolean {
  return error !== null && ConnectError.from(error).code === Code.NotFound;
}
