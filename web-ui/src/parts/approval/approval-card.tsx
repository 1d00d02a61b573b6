import { useId, useRef } from "react";
import { Link } from "wouter";
import { address } from "../../address.ts";
import { type FailureKind, failure } from "../../api/failure.ts";
import { useDecide } from "../../api/queries.ts";
import { actionName, actionOf } from "../../model/action.ts";
import type { Approval, Decision } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { shortId } from "../../model/words.ts";
import { readName } from "../../preferences.ts";
import { CliLine, Copy } from "../copy.tsx";
import { Age, Left } from "../time.tsx";
import { useFocusAfter } from "../use-focus-back.ts";
import { useRemembered } from "../use-remembered.ts";
import { ActionView } from "./action-view.tsx";
import { Answer } from "./answer.tsx";
import { commandLine, type Draft, outcome, taken } from "./answers.ts";
import "./approval.css";

interface Props {
  readonly approval: Approval;
  /** Inside the session's own page its link says nothing. */
  readonly isInSession?: boolean;
  /** It is no longer open, and what became of it was not read yet: nothing more can be said. */
  readonly isSettled?: boolean;
  /** The person's own answer was taken. */
  readonly onTaken?: () => void;
}

/** One approval: the exact action, why and until when, and the answers. */
export function ApprovalCard({
  approval,
  isInSession = false,
  isSettled = false,
  onTaken = () => undefined,
}: Props) {
  const heading = useId();
  const [draft, setDraft] = useRemembered<Draft>(`approval ${approval.id}`, { type: "none" });
  const decide = useDecide();
  // The server's own answer is newer than the list that is about to be read again.
  const shown = decide.data?.approval ?? approval;
  const tool = visible(shown.tool);
  const isOpen = shown.status === "open" && !isSettled;
  const said = useRef<HTMLParagraphElement>(null);
  useFocusAfter(said, !isOpen);
  const send = (
    decision: Decision,
    more: { reason?: string; arguments?: string; output?: string } = {},
  ) => {
    const { id: approvalId, digest } = approval;
    const request = {
      approvalId,
      digest,
      tool: approval.tool,
      decision,
      decidedBy: readName(),
      ...more,
    };
    decide.mutate(request, { onSuccess: onTaken });
  };
  return (
    <article
      className="approval"
      tabIndex={-1}
      aria-labelledby={heading}
      data-approval={approval.id}
    >
      <h2 id={heading} tabIndex={-1} className="approval-question">
        {shown.question === "may_run" ? (
          <>
            May <code>{tool}</code> run?
          </>
        ) : (
          <>
            What became of <code>{tool}</code>? It was started and its outcome is unknown.
          </>
        )}
      </h2>
      <ActionView tool={tool} argumentsJson={shown.arguments} />
      <Facts approval={shown} isInSession={isInSession} />
      {isOpen && (
        <Answer
          approval={shown}
          actionName={actionName(tool, actionOf(shown.arguments))}
          draft={draft}
          onDraft={setDraft}
          isSending={decide.isPending}
          onSend={send}
        />
      )}
      {decide.error !== null && <NotTaken error={decide.error} isOpen={isOpen} />}
      {!isOpen && (
        <p ref={said} tabIndex={-1} className="approval-outcome" role="status">
          {shown.status === "open" ? "It is no longer open." : <Outcome of={shown} />}
          {decide.isSuccess && ` ${taken(decide.variables.decision)}`}
          {decide.data?.unchanged === true && " The same was answered before; nothing changed."}
        </p>
      )}
      {isOpen && <CliLine line={commandLine(shown, draft)} />}
    </article>
  );
}

function Outcome({ of }: { readonly of: Approval }) {
  return (
    <>
      <strong>{outcome(of)}</strong>
      {of.decidedAt !== null && (
        <>
          , <Age at={of.decidedAt} isSaid />
        </>
      )}
      .{of.reason !== "" && ` “${visible(of.reason)}”`}
    </>
  );
}

interface NotTakenProps {
  readonly error: unknown;
  /** It still waits for an answer, as far as this page knows. */
  readonly isOpen: boolean;
}

/** The answer did not count: mostly because somebody else was faster, which the list shows meanwhile. */
function NotTaken({ error, isOpen }: NotTakenProps) {
  const { words, code, kind } = failure(error);
  const begin = !isOpen
    ? "Your answer came too late"
    : kind === "unreachable"
      ? "Whether your answer was taken is not known"
      : "Your answer was not taken";
  return (
    <div className="failed" role="alert">
      <div className="failed-words">
        <p>
          {begin}: {visible(words)}
        </p>
        <p className="quiet">
          {next(isOpen, kind)} {code !== "" && `Code ${code}, explained in docs/api.md.`}
        </p>
      </div>
    </div>
  );
}

/** What the person does now. */
function next(isOpen: boolean, kind: FailureKind): string {
  if (!isOpen) return "What counts stands below.";
  if (kind === "unreachable") return "The same answer may be given again: it counts once.";
  return kind === "not_found" ? "" : "The approval is still open.";
}

function Facts({ approval, isInSession }: Props) {
  return (
    <dl className="approval-facts">
      <div>
        <dt>Rule</dt>
        <dd>{visible(approval.rule)}</dd>
      </div>
      <div>
        <dt>Asked</dt>
        <dd>
          <Age at={approval.requestedAt} isSaid />, for call {visible(approval.callId)}
        </dd>
      </div>
      {approval.status === "open" && (
        <div>
          <dt>Expires</dt>
          <dd>
            {approval.expiresAt === null ? (
              "never"
            ) : (
              <>
                in <Left until={approval.expiresAt} />
              </>
            )}
          </dd>
        </div>
      )}
      <div>
        <dt>Digest</dt>
        <dd className="approval-id">
          <code title={approval.digest}>{approval.digest.slice(0, 16)}</code>
          <Copy text={approval.digest} label="Copy the digest of tool and arguments" />
        </dd>
      </div>
      {!isInSession && (
        <div>
          <dt>Session</dt>
          <dd className="approval-id">
            <Link href={address.session(approval.sessionId)}>
              <code>{shortId(approval.sessionId)}</code>
            </Link>
            <Copy text={approval.sessionId} label="Copy the id of the session" />
          </dd>
        </div>
      )}
    </dl>
  );
}
