import { useCallback, useRef } from "react";
import type { State } from "../../api/decode-history.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { inOrder, type Question, questions, takesMessage } from "../../model/asked.ts";
import { gist } from "../../model/session/messages.ts";
import { meaning } from "../../model/status.ts";
import type { Approval } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { QuestionCard } from "../../parts/question/question-card.tsx";
import { useAsked } from "../../parts/question/use-asked.ts";
import { ToneMark } from "../../parts/status-mark.tsx";
import { Left } from "../../parts/time.tsx";
import { useRemembered } from "../../parts/use-remembered.ts";
import { Review } from "./review.tsx";
import type { Selection } from "./use-selection.ts";

interface Props {
  readonly state: State;
  /** Why it is where it is. */
  readonly explain: string;
  /** Whether what waits can be answered here. */
  readonly canAct: boolean;
  readonly selection: Selection;
}

/** Why the session does not move, and the one action that moves it. */
export function WaitBar({ state, explain, canAct, selection }: Props) {
  const { session } = state;
  const { tone } = meaning(session.status);
  const bar = useRef<HTMLDivElement>(null);
  const [isReviewing, setReviewing] = useRemembered(`review ${session.id}`, false);
  const close = useCallback(() => setReviewing(false), [setReviewing]);
  const approvals = canAct ? inOrder(state.openApprovals) : [];
  const asked = useAsked(canAct ? questions(state.openCalls) : NO_QUESTIONS);
  const isAsked = approvals.length > 0;
  const isListening = canAct && takesMessage(state);
  const isAwaited = isListening || asked.some((it) => it.isOpen);
  const review = () => {
    if (isAsked) setReviewing(true);
    else focusFirst(bar.current, ".question-answer input");
  };
  // While approvals are reviewed, the review knows what comes next.
  const isReviewed = isAsked && isReviewing;
  useKeys((isAsked || isAwaited) && !isReviewed ? { review } : {});
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
      {canAct && isReviewing && (
        <Review
          sessionId={session.id}
          open={approvals}
          spanId={selection.isChosen ? selection.spanId : null}
          onChoose={(it) => selection.selectCall(it.callId, session.headSeq)}
          onClose={close}
        />
      )}
      {(isListening || asked.length > 0) && (
        <div className="review">
          {asked.map((it) => (
            <QuestionCard key={it.question.callId} sessionId={session.id} {...it} />
          ))}
          {isListening && <QuestionCard sessionId={session.id} question={null} />}
        </div>
      )}
    </div>
  );
}

const NO_QUESTIONS: readonly Question[] = [];

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
