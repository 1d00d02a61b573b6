import { GitFork, History, Link2, Pause, Play, Square, StepForward } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { address } from "../../address.ts";
import type { State } from "../../api/decode-history.ts";
import { type Steer, useSteer } from "../../api/history-queries.ts";
import { cost } from "../../model/account.ts";
import { meaning } from "../../model/status.ts";
import { visible } from "../../model/visible.ts";
import { count, money, percent, shortId } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Failed } from "../../parts/states.tsx";
import { StatusMark } from "../../parts/status-mark.tsx";
import { Age } from "../../parts/time.tsx";
import { readName } from "../../preferences.ts";
import { link } from "../../view-base.ts";

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
export function Header({ state, isPast, isReadOnly, seq, onFork, onReplay }: Props) {
  const { session, limits } = state;
  const spent = cost(state.models);
  return (
    <header className="session-head">
      <h1 title={visible(session.title)}>{visible(session.title)}</h1>
      <StatusMark status={session.status} />
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
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const STEERS: Record<Steer, { words: string; icon: typeof Pause }> = {
  pause: { words: "Hold", icon: Pause },
  resume: { words: "Go on", icon: Play },
  step: { words: "One step", icon: StepForward },
  cancel: { words: "Cancel", icon: Square },
};

/** Hold, go on, end: only what the present state allows. */
function SteerButtons({ state }: { readonly state: State }) {
  const { session } = state;
  const steer = useSteer(session.id);
  const [isSure, setSure] = useState(false);
  if (meaning(session.status).isOver) return null;
  const isHeld = session.status === "paused";
  const offered: Steer[] = isHeld ? ["resume", "step", "cancel"] : ["pause", "cancel"];
  const press = (what: Steer) => {
    // What cannot be taken back is asked for twice.
    if (what === "cancel" && !isSure) return setSure(true);
    setSure(false);
    steer.mutate({ what, by: readName() });
  };
  return (
    <>
      {offered.map((what) => {
        const { words, icon: Icon } = STEERS[what];
        return (
          <Button
            key={what}
            kind={what === "cancel" && isSure ? "danger" : "plain"}
            icon={<Icon size={14} aria-hidden />}
            disabled={steer.isPending}
            onClick={() => press(what)}
            onBlur={() => what === "cancel" && setSure(false)}
          >
            {what === "cancel" && isSure ? "Cancel for good" : words}
          </Button>
        );
      })}
      {steer.error !== null && <Failed doing="steer the session" error={steer.error} />}
    </>
  );
}
