import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { Link } from "wouter";
import { address, type Moment } from "../../address.ts";
import { askAhead } from "../../api/ahead.ts";
import type { State } from "../../api/decode-history.ts";
import { isNotFound } from "../../api/failure.ts";
import { useFeed } from "../../api/history-queries.ts";
import { useCalm } from "../../api/kept.ts";
import { useSession } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { callIdOf, type Then } from "../../model/session/spans.ts";
import { seek, timeAt, type Unit } from "../../model/session/strip.ts";
import { WHOLE } from "../../model/session/tree-view.ts";
import type { SessionRow } from "../../model/types.ts";
import { shortId } from "../../model/words.ts";
import { Page, useTitle } from "../../parts/page.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { FindBar } from "./find-bar.tsx";
import { ForkDialog } from "./fork-dialog.tsx";
import { GoToDialog } from "./go-to-dialog.tsx";
import { Header } from "./header.tsx";
import { MomentPanes } from "./moment-panes.tsx";
import { BeyondBar, GoneBar, LostBar, PastBar, ReadingBar, UnreadBar } from "./notices.tsx";
import { Panes } from "./panes.tsx";
import { ReplayDialog } from "./replay-dialog.tsx";
import { Scrubber } from "./scrubber.tsx";
import { useLost } from "./use-lost.ts";
import { useMoment, type Way } from "./use-moment.ts";
import { type Selection, useSelection } from "./use-selection.ts";
import { useRetried, useShown } from "./use-shown.ts";
import { WaitBar } from "./wait-bar.tsx";
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
  const { seq, latest, set: setSeq } = useMoment(moment);
  // What is read first is painted first, then the tree, then the strip: both are some work.
  const [isPainted, setPainted] = useState(false);
  const [hasTree, setTree] = useState(false);
  const feed = useFeed(sessionId, hasTree);
  const { strip } = feed;
  const head = useCalm(strip.length, CALM_MS);
  const wanted = seq === null || (head > 0 && seq >= head) ? null : seq;
  const [view, setView] = useState(WHOLE);
  const [open, setOpen] = useState<Open>("nothing");
  const moments = useShown(sessionId, view, wanted, head);
  const state = moments.shown?.state;
  const isRead = state !== undefined;
  useEffect(() => setPainted(isRead), [isRead]);
  const now = useSession(sessionId);
  useRetried(moments, now.dataUpdatedAt);
  // All that is on the screen is of this moment, whatever was asked for meanwhile.
  const shownSeq = moments.shown?.seq ?? null;
  const isNow = shownSeq === null;
  // Before the strip is there, the row of that moment knows its time.
  const time = head > 0 ? timeAt(strip, shownSeq ?? head) : (state?.session.updatedAt ?? 0);
  const openCalls = state?.openCalls;
  const then = useMemo((): Then | null => {
    if (shownSeq === null) return null;
    const calls = new Map(openCalls?.map((it) => [it.callId, it.arguments]));
    return { seq: shownSeq, time, calls };
  }, [shownSeq, time, openCalls]);
  const shown = shownSeq ?? head;
  // The state tells the head before the strip is there.
  const known = Math.max(head, state?.headSeq ?? 0);
  const selection = useSelection(sessionId, view, then, known, isPainted);
  const isTreeAnswered = selection.around !== undefined || selection.error !== null;
  useEffect(() => {
    if (isTreeAnswered) setTree(true);
  }, [isTreeAnswered]);
  useTitle(state?.session.title ?? sessionId);
  const { clear } = selection;
  const cache = useQueryClient();
  const show = useCallback(
    (to: number | null, way: Way = "jump") => {
      const past = to !== null && to >= known ? null : to;
      if (past !== null) askAhead(cache, { sessionId, seq: past }, view);
      clear();
      setSeq(past, way);
    },
    [cache, sessionId, view, clear, setSeq, known],
  );
  const onFork = useCallback(() => setOpen("fork"), []);
  const onReplay = useCallback(() => setOpen("replay"), []);
  const isGone =
    isRead && (feed.connection === "gone" || isNotFound(now.error) || isNotFound(moments.error));
  const canAct = !isReadOnly && !isGone;
  const lostAt = useLost(feed.lostAt, now);
  // The strip is what the keys step along, and newer than the calm head.
  const { length } = strip;
  const at = () => Math.min(latest.current ?? length, length);
  useTimeKeys(strip, at, show, () => setOpen("goTo"));
  useKeys(canAct ? { fork: onFork } : {});
  const [isFinding, setFinding] = useState(false);
  useKeys(isFinding ? {} : { find: () => setFinding(true) });
  const showFound = (found: number) => {
    const isLater = found > shown;
    if (isLater) show(null);
    selection.selectEvent(found, isLater ? null : shownSeq);
  };

  if (state === undefined) {
    if (moments.error === null) return <Skeleton />;
    return (
      <Page title={`Session ${shortId(sessionId)}`}>
        <Failed doing="read the session" error={moments.error} onRetry={moments.retry} />
        <p>
          {seq !== null && (
            <>
              <Link href={address.session(sessionId, null)}>This session now</Link> ·{" "}
            </>
          )}
          <Link href={address.sessions()}>All sessions</Link>
        </p>
      </Page>
    );
  }
  return (
    <main className={isNow ? "session" : "session is-past"} tabIndex={-1}>
      <Header
        state={state}
        isPast={!isNow}
        isReadOnly={!canAct}
        seq={shownSeq}
        onFork={onFork}
        onReplay={onReplay}
      />
      <div className="notices">
        {isGone && <GoneBar />}
        {lostAt !== null && !isGone && <LostBar since={lostAt} />}
        {moments.error !== null && !isGone && (
          <UnreadBar
            wanted={wanted}
            shown={shownSeq}
            error={moments.error}
            onRetry={moments.retry}
          />
        )}
        {moments.isReading && <ReadingBar wanted={wanted} shown={shownSeq} />}
        {then !== null && (
          <PastBar
            then={then}
            length={Math.max(head, state.headSeq)}
            explain={state.session.explain}
            canFork={canAct}
            onLive={() => show(null)}
            onFork={onFork}
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
        {isNow && !isGone && (
          <WaitBar
            state={state}
            explain={sentence(state, now.data?.session)}
            canAct={canAct}
            selection={selection}
          />
        )}
      </div>
      <div
        className={moments.isReading ? "session-moment is-other" : "session-moment"}
        aria-busy={shownSeq !== wanted}
      >
        <MomentPanes
          sessionId={sessionId}
          state={state}
          then={then}
          strip={strip}
          head={head}
          live={isNow ? feed.live : null}
          selection={selection}
          view={view}
          onView={setView}
          onMoment={show}
        />
      </div>
      <Scrubber strip={strip} seq={wanted} onMoment={show} connection={feed.connection} />
      {open === "fork" && (
        <ForkDialog
          sessionId={sessionId}
          title={state.session.title}
          seq={shownSeq}
          moment={state}
          strip={strip}
          callId={chosenCall(selection, isNow)}
          onClose={() => setOpen("nothing")}
        />
      )}
      {open === "replay" && (
        <ReplayDialog sessionId={sessionId} onMoment={show} onClose={() => setOpen("nothing")} />
      )}
      {open === "goTo" && (
        <GoToDialog last={known} onMoment={show} onClose={() => setOpen("nothing")} />
      )}
    </main>
  );
}

/**
 * Why it is where it is. What only the running server knows is asked for beside the state: it counts
 * where both tell of the same event.
 */
function sentence({ session }: State, live: SessionRow | undefined): string {
  return live !== undefined && live.headSeq === session.headSeq ? live.explain : session.explain;
}

/** A fork of a call that was chosen begins with another result of it. */
function chosenCall({ span, isChosen }: Selection, isNow: boolean): string | null {
  const callId = span === null ? "" : callIdOf(span);
  return isNow && isChosen && callId !== "" && span?.end !== null ? callId : null;
}

function useTimeKeys(
  strip: Parameters<typeof seek>[0],
  at: () => number,
  show: (seq: number | null, way?: Way) => void,
  goTo: () => void,
): void {
  const move = (unit: Unit, by: 1 | -1) => () => {
    const to = seek(strip, at(), unit, by);
    if (to !== null) show(to, "step");
    else if (by === 1) show(null, "step");
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
