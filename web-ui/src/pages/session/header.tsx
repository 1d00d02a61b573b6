import { GitFork, History, Link2, Pause } from "lucide-react";
import { memo, useRef } from "react";
import { Link } from "wouter";
import { address } from "../../address.ts";
import type { State } from "../../api/decode-history.ts";
import { cost } from "../../model/account.ts";
import { visible } from "../../model/visible.ts";
import { count, money, percent, shortId } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { StatusMark } from "../../parts/status-mark.tsx";
import { Age } from "../../parts/time.tsx";
import { useFocusArrived } from "../../parts/use-focus-back.ts";
import { link } from "../../view-base.ts";
import { SteerButtons } from "./steer.tsx";

/** What is written for "no limit". */
const NO_LIMIT = 0xffff_ffff;

interface Props {
  readonly state: State;
  readonly isPast: boolean;
  readonly isReadOnly: boolean;
  readonly seq: number | null;
  readonly onFork: () => void;
  readonly onReplay: () => void;
}

/** What the session is, where it is, and what can be done with it. */
export const Header = memo(function Header({
  state,
  isPast,
  isReadOnly,
  seq,
  onFork,
  onReplay,
}: Props) {
  const { session, limits } = state;
  const spent = cost(state.models);
  const heading = useRef<HTMLHeadingElement>(null);
  useFocusArrived(heading);
  return (
    <header className="session-head">
      <h1 ref={heading} tabIndex={-1} title={visible(session.title)}>
        {visible(session.title)}
      </h1>
      <StatusMark status={session.status} />
      {state.isHeld && session.status !== "paused" && (
        <span className="status tone-stopped" title="Nothing new begins before somebody lets it">
          <Pause size={12} aria-hidden />
          held
        </span>
      )}
      <dl className="session-facts">
        <Fact name="agent">
          {visible(session.agent)}
          {session.agentVersion > 0 && <span className="quiet"> v{session.agentVersion}</span>}
        </Fact>
        <Fact name="steps">
          {session.steps}
          {limits.stepsMax < NO_LIMIT && (
            <span className="quiet"> of {count(limits.stepsMax)}</span>
          )}
        </Fact>
        <Fact name="tokens">
          {count(session.usage.promptTokens + session.usage.completionTokens)}
          {limits.tokensMax !== null && (
            <span className="quiet"> of {count(limits.tokensMax)}</span>
          )}
        </Fact>
        {spent !== null && (
          <Fact name="cost">
            {money(spent.micros)}
            {spent.unpriced > 0 && <span className="quiet">+ ?</span>}
          </Fact>
        )}
        <Fact name="cached">
          {percent(session.usage.cachedTokens, session.usage.promptTokens) || "–"}
        </Fact>
        <Fact name="updated">
          <Age at={session.updatedAt} />
        </Fact>
        {session.parent !== null && (
          <Fact name="fork of">
            <Link href={address.session(session.parent.id, session.parent.seq)}>
              {shortId(session.parent.id)}@{session.parent.seq}
            </Link>
          </Fact>
        )}
      </dl>
      <span className="session-actions">
        {!isReadOnly && !isPast && (
          <Button icon={<GitFork size={14} aria-hidden />} onClick={onFork}>
            Fork…
          </Button>
        )}
        {!isReadOnly && (
          <Button icon={<History size={14} aria-hidden />} onClick={onReplay}>
            Replay
          </Button>
        )}
        {!isReadOnly && !isPast && <SteerButtons state={state} />}
        <span className="session-link" title="Copy a link to this moment">
          <Link2 size={14} aria-hidden />
          <Copy text={link(address.session(session.id, seq))} label="Copy a link to this moment" />
        </span>
      </span>
    </header>
  );
});

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
