import { useEffect, useState } from "react";
import { Link } from "wouter";
import { address, type Moment } from "../../address.ts";
import { useFeed, useMomentState } from "../../api/history-queries.ts";
import { useCalm } from "../../api/kept.ts";
import { useSession } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { callIdOf, type Then } from "../../model/session/spans.ts";
import { seek, timeAt, type Unit } from "../../model/session/strip.ts";
import { WHOLE } from "../../model/session/tree-view.ts";
import { shortId } from "../../model/words.ts";
import { Page, useTitle } from "../../parts/page.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { AboutSession } from "./about-session.tsx";
import { Conversation } from "./conversation.tsx";
import { FindBar } from "./find-bar.tsx";
import { ForkDialog } from "./fork-dialog.tsx";
import { GoToDialog } from "./go-to-dialog.tsx";
import { Header } from "./header.tsx";
import { Inspector } from "./inspector.tsx";
import { BeyondBar, PastBar, WaitBar } from "./notices.tsx";
import { NowBox } from "./now-box.tsx";
import { Panes } from "./panes.tsx";
import { ReplayDialog } from "./replay-dialog.tsx";
import { Scrubber } from "./scrubber.tsx";
import { Tree, type Zoom } from "./tree.tsx";
import { TreeTools } from "./tree-tools.tsx";
import { useMoment } from "./use-moment.ts";
import { type Selection, useSelection } from "./use-selection.ts";
import "./session.css";
import "./tree.css";
import "./conversation.css";
import "./scrubber.css";
import "./inspector.css";
import "./dialogs.css";
import "./find.css";

interface Props {
  readonly moment: Moment;
  /** A file, or a server that takes nothing: only looking. */
  readonly isReadOnly?: boolean;
}

type Open = "nothing" | "fork" | "replay" | "goTo";

/** What follows the head of a running session is asked for at most this often. */
const CALM_MS = 200;

/** One session at one moment: tree, conversation and inspector over one scrubber. */
export function SessionPage({ moment, isReadOnly = false }: Props) {
  const { sessionId } = moment;
  const [seq, setSeq] = useMoment(moment);
  // What is read first is painted first: the strip of a long session is some work.
  const [isPainted, setPainted] = useState(false);
  const feed = useFeed(sessionId, isPainted);
  const { strip } = feed;
  const head = useCalm(strip.length, CALM_MS);
  const isNow = seq === null || (head > 0 && seq >= head);
  const shown = isNow ? head : seq;
  const [view, setView] = useState(WHOLE);
  const [zoom, setZoom] = useState<Zoom>("sight");
  const [open, setOpen] = useState<Open>("nothing");
  const state = useMomentState(sessionId, isNow ? null : shown, head, true);
  const isRead = state.data !== undefined;
  useEffect(() => setPainted(isRead), [isRead]);
  const now = useSession(sessionId);
  // Before the strip is there, the row of that moment knows its time.
  const time = head > 0 ? timeAt(strip, shown) : (state.data?.session.updatedAt ?? 0);
  const then: Then | null = isNow ? null : { seq: shown, time };
  // The state tells the head before the strip is there.
  const known = Math.max(head, state.data?.headSeq ?? 0);
  const selection = useSelection(sessionId, view, then, known);
  useTitle(state.data?.session.title ?? sessionId);
  const show = (to: number | null) => {
    selection.clear();
    setSeq(to !== null && to >= head ? null : to);
  };
  useTimeKeys(strip, shown, show, () => setOpen("goTo"));
  useKeys(isReadOnly ? {} : { fork: () => setOpen("fork") });
  const [isFinding, setFinding] = useState(false);
  useKeys(isFinding ? {} : { find: () => setFinding(true) });
  const showFound = (found: number) => {
    if (found > shown) show(null);
    selection.selectEvent(found);
  };

  if (state.data === undefined) {
    if (state.error === null) return <Skeleton />;
    return (
      <Page title={`Session ${shortId(sessionId)}`}>
        <Failed doing="read the session" error={state.error} onRetry={state.refetch} />
        <p>
          <Link href={address.sessions()}>All sessions</Link>
        </p>
      </Page>
    );
  }
  const explain = isNow ? (now.data?.session.explain ?? state.data.session.explain) : "";
  return (
    <main className={isNow ? "session" : "session is-past"}>
      <Header
        state={state.data}
        isPast={!isNow}
        isReadOnly={isReadOnly}
        seq={isNow ? null : shown}
        onFork={() => setOpen("fork")}
        onReplay={() => setOpen("replay")}
      />
      <div className="notices">
        {state.error !== null && (
          <Failed doing="read this moment" error={state.error} onRetry={state.refetch} isStale />
        )}
        {then !== null && (
          <PastBar
            then={then}
            length={Math.max(head, state.data.headSeq)}
            isReadOnly={isReadOnly}
            onLive={() => show(null)}
            onFork={() => setOpen("fork")}
          />
        )}
        {seq !== null && head > 0 && seq > head && <BeyondBar seq={seq} head={head} />}
        {isFinding && (
          <FindBar
            sessionId={sessionId}
            from={isNow ? 0 : shown}
            onSelect={showFound}
            onClose={() => setFinding(false)}
          />
        )}
        {isNow && <WaitBar state={state.data} explain={explain} isReadOnly={isReadOnly} />}
      </div>
      <Panes
        left={
          <>
            <TreeTools view={view} onView={setView} zoom={zoom} onZoom={setZoom} />
            <Tree
              sessionId={sessionId}
              strip={strip}
              head={head}
              around={selection.around}
              error={selection.error}
              onRetry={selection.retry}
              view={view}
              onView={setView}
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
            total={state.data.messagesTotal}
            tail={state.data.tail}
            at={messagesAt(state.data.session.parent?.seq ?? 0, shown, head)}
            moment={String(seq)}
            isLive={isNow}
            target={selection.message}
            isSelected={selection.isSelected}
            onSelect={selection.selectMessage}
          >
            <NowBox
              state={state.data}
              live={isNow ? feed.live : null}
              onSelect={(callId) => selection.selectCall(callId, shown)}
            />
          </Conversation>
        }
        right={
          <Inspector
            key={selection.spanId}
            sessionId={sessionId}
            spanId={selection.spanId}
            then={then}
            head={known}
            onMoment={show}
            about={<AboutSession state={state.data} isPast={!isNow} />}
          />
        }
      />
      <Scrubber
        strip={strip}
        seq={isNow ? null : shown}
        onMoment={show}
        connection={feed.connection}
      />
      {open === "fork" && (
        <ForkDialog
          sessionId={sessionId}
          title={state.data.session.title}
          seq={isNow ? null : shown}
          moment={state.data}
          strip={strip}
          callId={chosenCall(selection, isNow)}
          onClose={() => setOpen("nothing")}
        />
      )}
      {open === "replay" && (
        <ReplayDialog sessionId={sessionId} onMoment={show} onClose={() => setOpen("nothing")} />
      )}
      {open === "goTo" && (
        <GoToDialog last={head} onMoment={show} onClose={() => setOpen("nothing")} />
      )}
    </main>
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

/** A fork of a call that was chosen begins with another result of it. */
function chosenCall({ span, isChosen }: Selection, isNow: boolean): string | null {
  const callId = span === null ? "" : callIdOf(span);
  return isNow && isChosen && callId !== "" && span?.end !== null ? callId : null;
}

function useTimeKeys(
  strip: Parameters<typeof seek>[0],
  shown: number,
  show: (seq: number | null) => void,
  goTo: () => void,
): void {
  const move = (unit: Unit, by: 1 | -1) => () => {
    const to = seek(strip, shown, unit, by);
    if (to !== null) show(to);
    else if (by === 1) show(null);
  };
  useKeys({
    eventBack: move("event", -1),
    eventForth: move("event", 1),
    stepBack: move("model", -1),
    stepForth: move("model", 1),
    toolBack: move("tool", -1),
    toolForth: move("tool", 1),
    live: () => show(null),
    goTo,
  });
}

/** What is there before anything was read. */
function Skeleton() {
  return (
    <main className="session">
      <header className="session-head">
        <h1>…</h1>
      </header>
      <div className="notices" />
      <Panes
        left={<Loading what="the steps" rows={16} />}
        middle={<Loading what="the conversation" rows={10} />}
        right={<Loading what="the selected step" rows={6} />}
      />
      <footer className="scrubber" />
    </main>
  );
}
