import { useCallback, useRef } from "react";
import type { State } from "../../api/decode-history.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { inOrder, questions, takesMessage } from "../../model/asked.ts";
import { gist } from "../../model/session/messages.ts";
import { meaning } from "../../model/status.ts";
import type { Approval } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { QuestionCard } from "../../parts/question/question-card.tsx";
import { ToneMark } from "../../parts/status-mark.tsx";
import { Left } from "../../parts/time.tsx";
import { useRemembered } from "../../parts/use-remembered.ts";
import { Review } from "./review.tsx";

interface Props {
  readonly state: State;
  /** Why it is where it is. */
  readonly explain: string;
  /** Whether what waits can be answered here. */
  readonly canAct: boolean;
}

/** Why the session does not move, and the one action that moves it. */
export function WaitBar({ state, explain, canAct }: Props) {
  const { session } = state;
  const { tone } = meaning(session.status);
  const bar = useRef<HTMLDivElement>(null);
  const [isReviewing, setReviewing] = useRemembered(`review ${session.id}`, false);
  const close = useCallback(() => setReviewing(false), [setReviewing]);
  const approvals = canAct ? inOrder(state.openApprovals) : [];
  const asked = canAct ? questions(state.openCalls) : [];
  const isAsked = approvals.length > 0;
  const hasAnswerBox = asked.length > 0 || (canAct && takesMessage(state));
  const review = () => {
    if (isAsked && !isReviewing) setReviewing(true);
    else focusFirst(bar.current, isAsked ? ".approval-question" : ".question-answer input");
  };
  useKeys(isAsked || hasAnswerBox ? { review } : {});
  const isSaid = explain !== "" && tone !== "done";
  return (
    <div ref={bar}>
      {isSaid && (
        <section className={`notice tone-ground-${tone}`} aria-label="Why it waits">
          <ToneMark tone={tone} />
          <div className="notice-words">
            <p>{visible(explain)}</p>
            {approvals.slice(0, 1).map((it) => (
              <OpenAction key={it.id} open={it} />
            ))}
          </div>
          {isAsked && (
            <Button
              kind={isReviewing ? "plain" : "main"}
              aria-expanded={isReviewing}
              onClick={() => setReviewing(!isReviewing)}
            >
              {isReviewing ? "Later" : "Review"}
            </Button>
          )}
        </section>
      )}
      {canAct && isReviewing && <Review sessionId={session.id} open={approvals} onClose={close} />}
      {hasAnswerBox && (
        <div className="review">
          {asked.map((it) => (
            <QuestionCard key={it.callId} sessionId={session.id} question={it} />
          ))}
          {asked.length === 0 && <QuestionCard sessionId={session.id} question={null} />}
        </div>
      )}
    </div>
  );
}

function focusFirst(around: HTMLElement | null, selector: string): void {
  around?.querySelector<HTMLElement>(selector)?.focus();
}

/** The action that is asked about first, named by its call: the sentence may be of an older moment. */
function OpenAction({ open }: { readonly open: Approval }) {
  return (
    <p className="notice-action">
      call {visible(open.callId)}{" "}
      <code>
        {visible(open.tool)} {visible(gist(open.arguments))}
      </code>
      {open.expiresAt !== null && (
        <span className="quiet">
          {" "}
          expires in <Left until={open.expiresAt} />
        </span>
      )}
    </p>
  );
}
