import { ArrowRight, Clock, GitFork } from "lucide-react";
import { useState } from "react";
import type { State } from "../../api/decode-history.ts";
import { useSendMessage } from "../../api/history-queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { gist } from "../../model/session/messages.ts";
import { newKey } from "../../model/session/new-key.ts";
import type { Then } from "../../model/session/spans.ts";
import { meaning } from "../../model/status.ts";
import type { Approval } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { exact } from "../../model/words.ts";
import { ApprovalCard } from "../../parts/approval/approval-card.tsx";
import { Button } from "../../parts/button.tsx";
import { Failed } from "../../parts/states.tsx";
import { ToneMark } from "../../parts/status-mark.tsx";
import { Left } from "../../parts/time.tsx";
import { readName } from "../../preferences.ts";

interface PastProps {
  readonly then: Then;
  readonly length: number;
  readonly isReadOnly: boolean;
  readonly onLive: () => void;
  readonly onFork: () => void;
}

/** Says plainly that this is not now. */
export function PastBar({ then, length, isReadOnly, onLive, onFork }: PastProps) {
  return (
    <section className="notice is-past" aria-label="The past">
      <Clock size={16} aria-hidden />
      <p>
        As it was at event {then.seq} of {length}, {exact(then.time)}.
      </p>
      <Button icon={<ArrowRight size={14} aria-hidden />} onClick={onLive}>
        Back to now
      </Button>
      {!isReadOnly && (
        <Button icon={<GitFork size={14} aria-hidden />} onClick={onFork}>
          Fork from here
        </Button>
      )}
    </section>
  );
}

/** The address names a moment that is not there. */
export function BeyondBar({ seq, head }: { readonly seq: number; readonly head: number }) {
  return (
    <section className="notice tone-ground-failed" aria-label="No such moment">
      <p>
        There is no event {seq}: the last is {head}. This is now.
      </p>
    </section>
  );
}

interface WaitProps {
  readonly state: State;
  /** Why it waits, with what only the running server knows. */
  readonly explain: string;
  readonly isReadOnly: boolean;
}

/** Why the session does not move, and the one action that moves it. */
export function WaitBar({ state, explain, isReadOnly }: WaitProps) {
  const [isReviewing, setReviewing] = useState(false);
  const { tone, isOver } = meaning(state.session.status);
  const isAsked = state.openApprovals.length > 0 && !isReadOnly;
  useKeys(isAsked ? { review: () => setReviewing(true) } : {});
  if (isOver && tone === "done") return null;
  if (tone === "running" && !explain.includes(";")) return null;
  return (
    <>
      <section className={`notice tone-ground-${tone}`} aria-label="Why it waits">
        <ToneMark tone={tone} />
        <p>
          {visible(explain)}
          {state.openApprovals.slice(0, 1).map((open) => (
            <OpenAction key={open.id} open={open} />
          ))}
        </p>
        {isAsked && (
          <Button
            kind={isReviewing ? "plain" : "main"}
            aria-expanded={isReviewing}
            onClick={() => setReviewing(!isReviewing)}
          >
            {isReviewing ? "Later" : "Review"}
          </Button>
        )}
        {state.session.status === "waiting_input" && !isReadOnly && (
          <AnswerForm sessionId={state.session.id} />
        )}
      </section>
      {isAsked && isReviewing && (
        <div className="review">
          {state.openApprovals.map((open) => (
            <ApprovalCard key={open.id} approval={open} isInSession />
          ))}
        </div>
      )}
    </>
  );
}

function OpenAction({ open }: { readonly open: Approval }) {
  return (
    <>
      {": "}
      <code>
        {visible(open.tool)} {visible(gist(open.arguments))}
      </code>
      {open.expiresAt !== null && (
        <>
          , expires in <Left until={open.expiresAt} />
        </>
      )}
    </>
  );
}

function AnswerForm({ sessionId }: { readonly sessionId: string }) {
  const [text, setText] = useState("");
  // One key for one text: sent twice, it is taken once.
  const [key, setKey] = useState(newKey);
  const send = useSendMessage(sessionId);
  const submit = () => {
    if (text.trim() === "") return;
    send.mutate(
      { content: text, key, by: readName() },
      {
        onSuccess: () => {
          setText("");
          setKey(newKey());
        },
      },
    );
  };
  return (
    <form
      className="answer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <input
        value={text}
        aria-label="Your answer"
        placeholder="Your answer"
        onChange={(event) => setText(event.target.value)}
      />
      <Button kind="main" type="submit" disabled={send.isPending || text.trim() === ""}>
        Send
      </Button>
      {send.error !== null && <Failed doing="send the answer" error={send.error} />}
    </form>
  );
}
