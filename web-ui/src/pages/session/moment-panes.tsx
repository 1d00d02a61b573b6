import { useCallback, useDeferredValue, useMemo, useState } from "react";
import type { State } from "../../api/decode-history.ts";
import type { Live } from "../../model/session/live.ts";
import type { Then } from "../../model/session/spans.ts";
import type { Strip } from "../../model/session/strip.ts";
import type { TreeView } from "../../model/session/tree-view.ts";
import { AboutSession } from "./about-session.tsx";
import { Conversation } from "./conversation.tsx";
import { Inspector } from "./inspector.tsx";
import { NowBox } from "./now-box.tsx";
import { Panes } from "./panes.tsx";
import { Tree, type Zoom } from "./tree.tsx";
import { TreeTools } from "./tree-tools.tsx";
import type { Selection } from "./use-selection.ts";

interface Props {
  readonly sessionId: string;
  /** The session at the moment that is shown. */
  readonly state: State;
  /** That moment, when it is past. */
  readonly then: Then | null;
  readonly strip: Strip;
  /** Events that the strip has. */
  readonly head: number;
  /** `null` in the past: nobody speaks there. */
  readonly live: Live | null;
  readonly selection: Selection;
  readonly view: TreeView;
  readonly onView: (view: TreeView) => void;
  readonly onMoment: (seq: number | null) => void;
}

/** One moment: its tree, its conversation, and what is selected in both. */
export function MomentPanes(props: Props) {
  const { sessionId, state, then, strip, head, live, selection, view, onView, onMoment } = props;
  const [zoom, setZoom] = useState<Zoom>("sight");
  const shown = then?.seq ?? head;
  const isNow = then === null;
  const { selectCall, spanId } = selection;
  // A pane is made anew for what changes in it, and not for each word that the model says.
  const onCall = useCallback((callId: string) => selectCall(callId, shown), [selectCall, shown]);
  const below = useMemo(
    () => <NowBox state={state} live={live} onSelect={onCall} />,
    [state, live, onCall],
  );
  const about = useMemo(() => <AboutSession state={state} isPast={!isNow} />, [state, isNow]);
  // The state tells the head before the strip is there.
  const known = Math.max(head, state.headSeq);
  const { openApprovals } = state;
  const inspector = useMemo(
    () => (
      <Inspector
        key={spanId}
        sessionId={sessionId}
        spanId={spanId}
        then={then}
        head={known}
        open={openApprovals}
        onMoment={onMoment}
        about={about}
      />
    ),
    [sessionId, spanId, then, known, openApprovals, onMoment, about],
  );
  // They must be read first, anyway: nothing else waits for them to be made.
  const details = useDeferredValue(inspector);
  return (
    <Panes
      left={
        <>
          <TreeTools view={view} onView={onView} zoom={zoom} onZoom={setZoom} />
          <Tree
            sessionId={sessionId}
            strip={strip}
            head={head}
            around={selection.around}
            error={selection.error}
            onRetry={selection.retry}
            view={view}
            onView={onView}
            then={then}
            rowsThen={selection.rowsThen}
            selectedId={selection.spanId}
            selected={selection.span}
            isChosen={selection.isChosen}
            selectedRow={selection.row}
            onSelect={selection.selectSpan}
            zoom={zoom}
          />
        </>
      }
      middle={
        <Conversation
          sessionId={sessionId}
          total={state.messagesTotal}
          tail={state.tail}
          at={messagesAt(state.session.parent?.seq ?? 0, shown, head)}
          moment={String(then?.seq ?? null)}
          isLive={isNow}
          target={selection.message}
          isSelected={selection.isSelected}
          onSelect={selection.selectMessage}
          below={below}
        />
      }
      right={details}
    />
  );
}

/**
 * A moment that has all messages that are shown. They only grow, so that the head will do, and pages
 * need not be read again; but a fork may have got other instructions than its parent had.
 */
function messagesAt(forkedAt: number, shown: number, head: number): number {
  if (shown <= forkedAt) return forkedAt;
  return head > 0 ? 0 : shown;
}
