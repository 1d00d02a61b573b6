import { useId, useState } from "react";
import { Link } from "wouter";
import { address } from "../../address.ts";
import { failure } from "../../api/failure.ts";
import { useDecide } from "../../api/queries.ts";
import { actionName, actionOf } from "../../model/action.ts";
import type { Approval, Decision } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { shortId } from "../../model/words.ts";
import { readName, writeName } from "../../preferences.ts";
import { CliLine, Copy } from "../copy.tsx";
import { Age, Left } from "../time.tsx";
import { ActionView } from "./action-view.tsx";
import { Answer } from "./answer.tsx";
import { commandLine, type Draft, outcome, taken } from "./answers.ts";
import "./approval.css";

interface Props {
  readonly approval: Approval;
  /** Inside the session's own page its link says nothing. */
  readonly isInSession?: boolean;
}

/** One approval: the exact action, why and until when, and the answers. */
export function ApprovalCard({ approval, isInSession = false }: Props) {
  const heading = useId();
  const [draft, setDraft] = useState<Draft>({ type: "none" });
  const [name, setName] = useState(readName);
  const decide = useDecide();
  // The server's own answer is newer than the list that is about to be read again.
  const shown = decide.data?.approval ?? approval;
  const tool = visible(shown.tool);
  const send = (
    decision: Decision,
    more: { reason?: string; arguments?: string; output?: string } = {},
  ) => {
    writeName(name);
    const { id: approvalId, digest } = approval;
    decide.mutate({
      approvalId,
      digest,
      tool: approval.tool,
      decision,
      decidedBy: name.trim(),
      ...more,
    });
  };
  return (
    <article className="approval" aria-labelledby={heading} data-approval={approval.id}>
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
      {shown.status === "open" && (
        <Answer
          approval={shown}
          actionName={actionName(tool, actionOf(shown.arguments))}
          draft={draft}
          onDraft={setDraft}
          name={name}
          onName={setName}
          isSending={decide.isPending}
          onSend={send}
        />
      )}
      {decide.error !== null && <NotTaken error={decide.error} now={approval} />}
      {shown.status !== "open" && (
        <p className="approval-outcome" role="status">
          <strong>{outcome(shown)}</strong>
          {shown.decidedAt !== null && (
            <>
              , <Age at={shown.decidedAt} isSaid />
            </>
          )}
          .{shown.reason !== "" && ` “${visible(shown.reason)}”`}
          {decide.isSuccess && ` ${taken(decide.variables.decision)}`}
          {decide.data?.unchanged === true && " The same was answered before; nothing changed."}
        </p>
      )}
      {shown.status === "open" && <CliLine line={commandLine(shown, draft)} />}
    </article>
  );
}

/** The answer did not count: mostly because somebody else was faster, which the list shows meanwhile. */
function NotTaken({ error, now }: { readonly error: unknown; readonly now: Approval }) {
  const { words, code } = failure(error);
  const wasFaster = now.status !== "open";
  return (
    <div className="failed" role="alert">
      <div className="failed-words">
        <p>
          {wasFaster ? "Your answer came too late" : "Your answer was not taken"}: {visible(words)}
        </p>
        <p className="quiet">
          {wasFaster ? "What counts stands below. " : "The approval is still open. "}
          Code {code}, explained in docs/api.md.
        </p>
      </div>
    </div>
  );
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
