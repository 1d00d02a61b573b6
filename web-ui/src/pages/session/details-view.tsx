import { useSpan } from "../../api/history-queries.ts";
import {
  type Decided,
  type Details,
  details,
  type Reply,
  type Result,
} from "../../model/session/details.ts";
import { indented } from "../../model/session/indent.ts";
import { callSpanId, type Span } from "../../model/session/spans.ts";
import type { Approval, HistoryEvent } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { bytes, count, duration, exact, percent, person } from "../../model/words.ts";
import { ActionView } from "../../parts/approval/action-view.tsx";
import { PayloadText } from "./payload-text.tsx";

interface Props {
  readonly sessionId: string;
  /** Head of the session: tells when what was read may have changed. */
  readonly head: number;
  /** What waits for a person at the moment that is shown. */
  readonly open: readonly Approval[];
  readonly span: Span;
  readonly events: readonly HistoryEvent[];
  readonly hasMore: boolean;
  readonly onMoment: (seq: number) => void;
}

/** What a person wants to know of a span, from its events. */
export function DetailsView({ span, events, hasMore, onMoment, ...session }: Props) {
  // A step and the session show the list of what is in them in the tree.
  if (span.kind === "session") return null;
  const it = details(events, callOf(span));
  return (
    <div className="details">
      {it.arguments !== null && (
        <Section title={`arguments of ${visible(it.tool)}`}>
          <PayloadText payload={it.arguments} shape={indented} label="arguments" />
          {it.problem !== "" && <p className="tone-failed">{visible(it.problem)}</p>}
        </Section>
      )}
      {span.kind === "wait" && it.dueAt.map((at) => <p key={at}>until {exact(at)}</p>)}
      {it.approvals.map((one) => (
        <ApprovalPart key={one.seq} approval={one}>
          {span.kind === "approval" && <AskedAction callId={one.callId} {...session} />}
        </ApprovalPart>
      ))}
      {it.reply !== null && <ReplyPart reply={it.reply} />}
      <Requests details={it} />
      {it.results.map((one) => (
        <ResultPart key={one.seq} result={one} many={it.results.length > 1} onMoment={onMoment} />
      ))}
      {hasMore && <p className="quiet">Only its first events are shown; Events has more.</p>}
    </div>
  );
}

/** `call:3.1` and what is below it are about call 3.1. */
function callOf(span: Span): string {
  return /^(?:call|attempt):(\d+\.\d+)/.exec(span.id)?.[1] ?? "";
}

function Section({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section className="details-part">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

interface ActionProps {
  readonly sessionId: string;
  readonly head: number;
  readonly open: readonly Approval[];
  readonly callId: string;
}

/** The action that was asked about: while it is open as it would run, later as the model asked. */
function AskedAction({ sessionId, head, open, callId }: ActionProps) {
  const asked = open.find((it) => it.callId === callId);
  const isWanted = asked === undefined && callId !== "";
  const { data } = useSpan(sessionId, isWanted ? callSpanId(callId) : null, head, 1);
  if (asked !== undefined) {
    return <ActionView tool={visible(asked.tool)} argumentsJson={asked.arguments} />;
  }
  if (data === undefined) return null;
  const call = details(data.events, callId);
  if (call.arguments === null) return null;
  if (call.arguments.blob !== "") return <PayloadText payload={call.arguments} label="arguments" />;
  return <ActionView tool={visible(call.tool)} argumentsJson={call.arguments.text} />;
}

interface ApprovalProps {
  readonly approval: Decided;
  readonly children: React.ReactNode;
}

function ApprovalPart({ approval, children }: ApprovalProps) {
  const { question, rule, decision, by, reason, edited } = approval;
  return (
    <Section title={`approval: ${question}`}>
      {children}
      <dl className="facts">
        <dt>asked by</dt>
        <dd>{visible(rule)}</dd>
        <dt>decision</dt>
        <dd>{decision === "" ? "none yet" : decision}</dd>
        {by !== "" && (
          <>
            <dt>by</dt>
            <dd>{visible(person(by))}</dd>
          </>
        )}
        {reason !== "" && (
          <>
            <dt>reason</dt>
            <dd>{visible(reason)}</dd>
          </>
        )}
      </dl>
      {edited !== "" && (
        <>
          <p>What ran instead:</p>
          <PayloadText
            payload={{ text: edited, blob: "", bytes: edited.length }}
            shape={indented}
          />
        </>
      )}
    </Section>
  );
}

function ReplyPart({ reply }: { readonly reply: Reply }) {
  const { promptTokens, cachedTokens, completionTokens } = reply;
  return (
    <>
      <Section title="tokens">
        <TokenBar prompt={promptTokens} cached={cachedTokens} />
        <dl className="facts">
          <dt>prompt</dt>
          <dd>{count(promptTokens)}</dd>
          <dt>of that cached</dt>
          <dd>
            {count(cachedTokens)}
            {promptTokens > 0 && `, ${percent(cachedTokens, promptTokens)}`}
          </dd>
          <dt>completion</dt>
          <dd>{count(completionTokens)}</dd>
          <dt>first token after</dt>
          <dd>{duration(reply.firstTokenMs)}</dd>
          <dt>all after</dt>
          <dd>{duration(reply.durationMs)}</dd>
          <dt>asked at</dt>
          <dd>{visible(reply.endpoint)}</dd>
          <dt>finish</dt>
          <dd>{visible(reply.finish)}</dd>
        </dl>
      </Section>
      {reply.reasoning.bytes > 0 && (
        <Section title="reasoning (the model is not sent it again)">
          <PayloadText payload={reply.reasoning} label="reasoning" />
        </Section>
      )}
      {reply.content.bytes > 0 && (
        <Section title="content">
          <PayloadText payload={reply.content} label="content" />
        </Section>
      )}
      {reply.calls.map((call) => (
        <Section key={call.id} title={`asks for ${visible(call.name)} (call ${call.id})`}>
          <PayloadText payload={call.arguments} shape={indented} label="arguments" />
        </Section>
      ))}
    </>
  );
}

/** The part of the prompt that the model server had read before. */
function TokenBar({ prompt, cached }: { readonly prompt: number; readonly cached: number }) {
  if (prompt === 0) return null;
  return (
    <div className="token-bar" role="img" aria-label={`${percent(cached, prompt)} from the cache`}>
      <span style={{ width: `${(100 * cached) / prompt}%` }} />
    </div>
  );
}

function Requests({ details: { requests, failures } }: { readonly details: Details }) {
  if (requests.length === 0) return null;
  return (
    <Section title={requests.length === 1 ? "request" : "requests"}>
      {requests.map((it) => (
        <p key={it.seq}>
          {requests.length > 1 && `attempt ${it.attempt}: `}
          {bytes(it.bytes)} <code className="digest">{it.digest}</code>
        </p>
      ))}
      {failures.map((it) => (
        <p key={it.seq} className="tone-failed">
          attempt {it.attempt} failed, {it.kind.replaceAll("_", " ")}: {visible(it.message)}
        </p>
      ))}
    </Section>
  );
}

interface ResultProps {
  readonly result: Result;
  readonly many: boolean;
  readonly onMoment: (seq: number) => void;
}

function ResultPart({ result, many, onMoment }: ResultProps) {
  const attempt = many && result.attempt > 0 ? ` of attempt ${result.attempt}` : "";
  return (
    <Section title={`output${attempt}`}>
      <p className="inspector-facts">
        <span className={result.ending === "ok" ? "" : "tone-failed"}>{result.ending}</span>
        {result.durationMs !== null && <span>{duration(result.durationMs)}</span>}
        <span>{visible(result.by)}</span>
        <button type="button" className="as-link" onClick={() => onMoment(result.seq)}>
          event {result.seq}
        </button>
        {result.isLate && <span>too late: it changed nothing</span>}
      </p>
      <PayloadText payload={result.output} label="output" />
      {result.full !== null && (
        <>
          <p>The tool shortened it for the model. All of it:</p>
          <PayloadText payload={result.full} label="whole output" />
        </>
      )}
    </Section>
  );
}
