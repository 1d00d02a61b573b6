import type { State } from "../../api/decode-history.ts";
import type { ModelAccount } from "../../model/account.ts";
import { deadlineWords } from "../../model/session/deadline.ts";
import { indented } from "../../model/session/indent.ts";
import { visible } from "../../model/visible.ts";
import { bytes, count, exact, money } from "../../model/words.ts";
import { CliLine, Copy } from "../../parts/copy.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Left } from "../../parts/time.tsx";
import { Lineage } from "./lineage.tsx";

/** What is written for "no limit". */
const NO_LIMIT = 0xffff_ffff;

interface Props {
  readonly state: State;
  readonly isPast: boolean;
}

/** The session as a whole at the moment that is shown: limits, timers, forks, agent. */
export function AboutSession({ state, isPast }: Props) {
  const { session, limits, timers } = state;
  return (
    <>
      <dl className="facts">
        <dt>id</dt>
        <dd className="with-copy">
          <code>{session.id}</code>
          <Copy text={session.id} label="Copy the id" />
        </dd>
        <dt>created</dt>
        <dd>{exact(session.createdAt)}</dd>
        <dt>steps</dt>
        <dd>
          {limits.steps}
          {limits.stepsMax < NO_LIMIT ? ` of ${count(limits.stepsMax)}` : ", no limit"}
        </dd>
        <dt>tokens</dt>
        <dd>
          {count(limits.tokens)}
          {limits.tokensMax === null ? ", no limit" : ` of ${count(limits.tokensMax)}`}
        </dd>
        {state.models.map((it) => (
          <FactPair key={it.model} name={`by ${visible(it.model)}`} value={modelWords(it)} />
        ))}
        <dt>deadline</dt>
        <dd>{deadlineWords(limits.deadlineAt, state.agentJson)}</dd>
        <dt>request</dt>
        <dd>
          {state.messagesTotal} messages, {bytes(state.promptBytes)}
        </dd>
        {session.labels.map(([key, value]) => (
          <FactPair key={key} name={visible(key)} value={visible(value)} />
        ))}
        {timers.map((it) => (
          <FactPair
            key={it.name}
            name={`timer ${it.name}`}
            value={isPast ? exact(it.dueAt) : <Left until={it.dueAt} />}
          />
        ))}
      </dl>
      <Lineage session={session} />
      <section className="details-part">
        <h3>agent {visible(session.agent)}</h3>
        <MachineText text={indented(state.agentJson)} linesMax={40} label="agent definition" />
      </section>
      <CliLine line={`stepwell show ${session.id}`} />
    </>
  );
}

function modelWords(it: ModelAccount): string {
  const tokens = `${count(it.promptTokens)} + ${count(it.completionTokens)} tokens`;
  const price = it.costMicros === null ? "no price" : `cost ${money(it.costMicros)}`;
  return `${it.replies} ${it.replies === 1 ? "reply" : "replies"}, ${tokens}, ${price}`;
}

function FactPair({ name, value }: { readonly name: string; readonly value: React.ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
