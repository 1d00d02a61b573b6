import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { ANSWERED, useApprovals } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { actionName, actionOf } from "../../model/action.ts";
import { chosenApproval } from "../../model/asked.ts";
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
  /** What the person chose anywhere on the page. */
  readonly spanId: string | null;
  readonly onChoose: (approval: Approval) => void;
  readonly onClose: () => void;
}

/**
 * The approvals of a session, one at a time: what is on the screen stays there, with its outcome,
 * until the person goes on. Nothing else comes up under the mouse by itself.
 */
export function Review({ sessionId, open, spanId, onChoose, onClose }: Props) {
  const panel = useRef<HTMLElement>(null);
  const [chosen, setChosen] = useState(() => (chosenApproval(open, spanId) ?? open[0])?.id ?? null);
  const [taken, setTaken] = useState<string | null>(null);
  const over = useApprovals(ANSWERED, sessionId);
  const answered = over.data?.pages.flatMap((it) => it.rows) ?? [];
  const shown = useFollowed(chosen, open, answered);
  const isSettled = shown?.isSettled === true;
  const isTaken = taken !== null && taken === chosen;
  const isAnswered = shown === null || isTaken || isSettled || shown.approval.status !== "open";
  const next = open.find((it) => it.id !== chosen);
  useFocusBack();
  useSelected({ open, spanId, chosen, setChosen, onChoose });
  const choose = (to: Approval | undefined) => {
    if (to === undefined) return;
    setChosen(to.id);
    onChoose(to);
  };
  const { refetch } = over;
  useEffect(() => {
    if (isSettled) void refetch();
  }, [isSettled, refetch]);
  const lead = () => {
    panel.current?.querySelector<HTMLElement>(".approval-question")?.focus();
    panel.current?.scrollIntoView({ block: "nearest" });
  };
  // The heading, and never a button: what is asked is read first.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another one is on the screen
  useEffect(lead, [chosen]);
  useKeys({
    close: onClose,
    ...(open.length > 0 && { review: () => (isAnswered ? choose(next) : lead()) }),
  });
  // What others said is not taken away before it is read.
  const isDone = open.length === 0 && (shown === null || (isAnswered && isTaken));
  useEffect(() => {
    if (!isDone) return;
    const timer = window.setTimeout(onClose, SAID_MS);
    return () => window.clearTimeout(timer);
  }, [isDone, onClose]);
  return (
    <section ref={panel} className="review" aria-label="Review">
      {open.length > 1 && <Place open={open} chosen={chosen} onChoose={choose} />}
      {isAnswered && (
        <div className="review-head">
          {next === undefined ? (
            <>
              Nothing else waits for you here.
              <Button kind="quiet" onClick={onClose}>
                Close
              </Button>
            </>
          ) : (
            <Button onClick={() => choose(next)}>
              Next: {visible(actionName(next.tool, actionOf(next.arguments)))}
            </Button>
          )}
        </div>
      )}
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

interface Selected {
  readonly open: readonly Approval[];
  readonly spanId: string | null;
  readonly chosen: string | null;
  readonly setChosen: (id: string) => void;
  readonly onChoose: (approval: Approval) => void;
}

/** The approval on the screen is the one that is selected, and the other way round. */
function useSelected({ open, spanId, chosen, setChosen, onChoose }: Selected): void {
  const [selected, setSelected] = useState(spanId);
  if (selected !== spanId) {
    setSelected(spanId);
    const meant = chosenApproval(open, spanId);
    if (meant !== undefined) setChosen(meant.id);
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: what came up first, once
  useEffect(() => {
    const first = open.find((it) => it.id === chosen);
    if (first !== undefined) onChoose(first);
  }, []);
}

interface PlaceProps {
  readonly open: readonly Approval[];
  readonly chosen: string | null;
  readonly onChoose: (approval: Approval | undefined) => void;
}

/** Which of those that wait is on the screen, and the way to its neighbours. */
function Place({ open, chosen, onChoose }: PlaceProps) {
  const at = open.findIndex((it) => it.id === chosen);
  if (at === -1) return null;
  const [before, after] = [open[at - 1], open[at + 1]];
  return (
    <div className="review-head">
      <Button
        kind="quiet"
        icon={<ChevronLeft size={14} aria-hidden />}
        aria-label="previous approval"
        disabled={before === undefined}
        onClick={() => onChoose(before)}
      />
      {at + 1} of {open.length} that wait for you
      <Button
        kind="quiet"
        icon={<ChevronRight size={14} aria-hidden />}
        aria-label="next approval"
        disabled={after === undefined}
        onClick={() => onChoose(after)}
      />
    </div>
  );
}
