import { GitFork } from "lucide-react";
import { Link } from "wouter";
import { address } from "../../address.ts";
import type { SessionRow } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { count, percent, shortId } from "../../model/words.ts";
import { StatusMark } from "../../parts/status-mark.tsx";
import { Age } from "../../parts/time.tsx";

interface Props {
  readonly session: SessionRow;
  readonly isTall: boolean;
  readonly isChosen: boolean;
}

/** One session of the list. */
export function SessionLine({ session, isTall, isChosen }: Props) {
  const { promptTokens, cachedTokens, completionTokens } = session.usage;
  return (
    <div
      className={isTall ? "session-line session-tall" : "session-line"}
      role="row"
      aria-selected={isChosen}
      data-session={session.id}
    >
      <span role="cell">
        <StatusMark status={session.status} />
      </span>
      <span role="cell" className="session-what">
        <span className="session-name">
          <Link href={address.session(session.id)} className="session-title">
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
          {session.labels.map(([key, value]) => (
            <Link
              key={key}
              href={`/?label=${encodeURIComponent(`${key}=${value}`)}`}
              className="session-label"
            >
              {visible(key)}={visible(value)}
            </Link>
          ))}
        </span>
        <span className="session-why" title={visible(session.explain)}>
          {visible(session.explain)}
        </span>
      </span>
      <span role="cell" className="session-agent">
        {visible(session.agent)}
        {session.agentVersion > 0 && <span className="quiet"> @{session.agentVersion}</span>}
      </span>
      <span role="cell" className="number">
        {session.steps}
      </span>
      <span
        role="cell"
        className="number"
        title={`${promptTokens} tokens in, ${completionTokens} out, ${cachedTokens} of those in from the cache`}
      >
        {count(promptTokens + completionTokens)}
      </span>
      <span role="cell" className="number quiet-number">
        {percent(cachedTokens, promptTokens)}
      </span>
      <span role="cell" className="number">
        <Age at={session.updatedAt} />
      </span>
    </div>
  );
}
