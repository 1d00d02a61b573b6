import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { ANSWERED, useApprovals } from "../../api/queries.ts";
import { actionName, actionOf } from "../../model/action.ts";
import type { Approval } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { ApprovalCard } from "../../parts/approval/approval-card.tsx";
import { useFollowed } from "../../parts/approval/use-followed.ts";
import { Button } from "../../parts/button.tsx";
import { useFocusBack } from "../../parts/use-focus-back.ts";

/** What was answered last is shown for so long when nothing else waits. */
const SAID_MS = 6_000;

interface Props {
  readonly sessionId: string;
  /** What waits, in the order in which it is told. */
  readonly open: readonly Approval[];
  readonly onClose: () => void;
}

/**
 * The approvals of a session, one at a time: what is on the screen stays there, with its outcome,
 * until the person goes on. Nothing else comes up under the mouse by itself.
 */
export function Review({ sessionId, open, onClose }: Props) {
  const panel = useRef<HTMLElement>(null);
  const [chosen, choose] = useState(open[0]?.id ?? null);
  const [taken, setTaken] = useState<string | null>(null);
  const over = useApprovals(ANSWERED, sessionId);
  const answered = over.data?.pages.flatMap((it) => it.rows) ?? [];
  const shown = useFollowed(chosen, open, answered);
  const isSettled = shown?.isSettled === true;
  const isAnswered = shown === null || isSettled || shown.approval.status !== "open";
  useFocusBack();
  const { refetch } = over;
  useEffect(() => {
    if (isSettled) void refetch();
  }, [isSettled, refetch]);
  // The heading, and never a button: what is asked is read first.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another one is on the screen
  useEffect(() => {
    panel.current?.querySelector<HTMLElement>(".approval-question")?.focus();
  }, [chosen]);
  // What others said is not taken away before it is read.
  const isDone = open.length === 0 && (shown === null || (isAnswered && taken === chosen));
  useEffect(() => {
    if (!isDone) return;
    const timer = window.setTimeout(onClose, SAID_MS);
    return () => window.clearTimeout(timer);
  }, [isDone, onClose]);
  const at = open.findIndex((it) => it.id === chosen);
  const [before, after] = [open[at - 1], open[at + 1]];
  return (
    <section
      ref={panel}
      className="review"
      aria-label="Review"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        onClose();
      }}
    >
      <div className="review-head">
        {at >= 0 && open.length > 1 && (
          <>
            <Button
              kind="quiet"
              icon={<ChevronLeft size={14} aria-hidden />}
              aria-label="previous approval"
              disabled={before === undefined}
              onClick={() => choose(before?.id ?? chosen)}
            />
            {at + 1} of {open.length} that wait for you
            <Button
              kind="quiet"
              icon={<ChevronRight size={14} aria-hidden />}
              aria-label="next approval"
              disabled={after === undefined}
              onClick={() => choose(after?.id ?? chosen)}
            />
          </>
        )}
        {isAnswered && open[0] === undefined && (
          <>
            Nothing else waits for you here.
            <Button kind="quiet" onClick={onClose}>
              Close
            </Button>
          </>
        )}
        {isAnswered && open[0] !== undefined && (
          <Button onClick={() => choose(open[0]?.id ?? chosen)}>
            Next: {visible(actionName(open[0].tool, actionOf(open[0].arguments)))}
          </Button>
        )}
      </div>
      {shown !== null && (
        <ApprovalCard
          key={shown.approval.id}
          approval={shown.approval}
          isSettled={shown.isSettled}
          isInSession
          onTaken={() => setTaken(shown.approval.id)}
        />
      )}
    </section>
  );
}
