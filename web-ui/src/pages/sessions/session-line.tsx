import { GitFork } from "lucide-react";
import type { MouseEvent } from "react";
import { Link, useLocation } from "wouter";
import { address } from "../../address.ts";
import type { SessionRow } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { count, percent, shortId } from "../../model/words.ts";
import { StatusMark } from "../../parts/status-mark.tsx";
import { Age } from "../../parts/time.tsx";
import { link } from "../../view-base.ts";
import { type Label, writeLabel } from "./filter.ts";

interface Props {
  readonly session: SessionRow;
  /** Row of the list, from 0. */
  readonly row: number;
  readonly isTall: boolean;
  readonly isChosen: boolean;
  /** What it asks of a person, in words. */
  readonly asks: string;
  /** Address of the list, narrowed to a label, too. */
  readonly withLabel: (label: Label) => string;
  /** It is about to be opened. */
  readonly onOpen: (id: string) => void;
}

/** One session of the list. */
export function SessionLine(props: Props) {
  const { session, row, isTall, isChosen, asks, withLabel, onOpen } = props;
  const { promptTokens, cachedTokens, completionTokens } = session.usage;
  const [, go] = useLocation();
  const to = address.session(session.id);
  const open = (event: MouseEvent<HTMLElement>) => {
    const at = event.target instanceof Element ? event.target : null;
    const isSelecting = window.getSelection()?.isCollapsed === false;
    if (at?.closest("a, button") != null || isSelecting) return;
    onOpen(session.id);
    if (event.ctrlKey || event.metaKey) window.open(link(to), "_blank", "noopener");
    else go(to);
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list has the keys
    <div
      className={isTall ? "session-line session-tall" : "session-line"}
      id={`session-${session.id}`}
      role="row"
      tabIndex={-1}
      aria-rowindex={row + 1}
      aria-selected={isChosen}
      data-session={session.id}
      onClick={open}
    >
      <span role="gridcell">
        <StatusMark status={session.status} />
      </span>
      <span role="gridcell" className="session-what">
        <span className="session-name">
          <Link href={to} className="session-title" onClick={() => onOpen(session.id)}>
            {visible(session.title)}
          </Link>
          {session.parent !== null && (
            <Link
              href={address.session(session.parent.id, session.parent.seq)}
              className="session-parent"
              title={`a fork: begins as ${session.parent.id} does, up to event ${session.parent.seq}`}
            >
              <GitFork size={12} aria-hidden />
              {shortId(session.parent.id)}@{session.parent.seq}
            </Link>
          )}
          {session.labels.map((label) => (
            <Link key={label[0]} href={withLabel(label)} className="session-label">
              {visible(writeLabel(label))}
            </Link>
          ))}
        </span>
        <span className="session-why" title={visible(session.explain)}>
          {asks !== "" && <span className="session-asks">{asks}</span>}
          {visible(session.explain)}
        </span>
      </span>
      <span role="gridcell" className="session-agent">
        {visible(session.agent)}
        {session.agentVersion > 0 && <span className="quiet"> @{session.agentVersion}</span>}
      </span>
      <span role="gridcell" className="number">
        {session.steps}
      </span>
      <span
        role="gridcell"
        className="number"
        title={`${promptTokens} tokens in, ${completionTokens} out, ${cachedTokens} of those in from the cache`}
      >
        {count(promptTokens + completionTokens)}
      </span>
      <span role="gridcell" className="number quiet-number">
        {percent(cachedTokens, promptTokens)}
      </span>
      <span role="gridcell" className="number">
        <Age at={session.updatedAt} />
      </span>
    </div>
  );
}
