import { memo, useState } from "react";
import { useSpan } from "../../api/history-queries.ts";
import { familyOfSpan } from "../../model/session/family.ts";
import { asOf, callIdOf, type Span, statusWords, type Then } from "../../model/session/spans.ts";
import type { Approval, HistoryEvent } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { duration, exact } from "../../model/words.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { DetailsView } from "./details-view.tsx";
import { PromptView } from "./prompt-view.tsx";
import { RawEvents } from "./raw-events.tsx";

type Tab = "details" | "events" | "prompt";

const TABS: Record<Tab, string> = { details: "Details", events: "Events", prompt: "Prompt" };

interface Props {
  readonly sessionId: string;
  readonly spanId: string | null;
  readonly then: Then | null;
  readonly head: number;
  /** What waits for a person at that moment. */
  readonly open: readonly Approval[];
  readonly onMoment: (seq: number) => void;
  /** What is said of the session as a whole. */
  readonly about: React.ReactNode;
}

/** The selected span in full. */
export const Inspector = memo(function Inspector({
  sessionId,
  spanId,
  then,
  head,
  open,
  onMoment,
  about,
}: Props) {
  const [tab, setTab] = useState<Tab>("details");
  const [pages, setPages] = useState(1);
  const { data, error, refetch } = useSpan(sessionId, spanId, head, pages);
  if (data === undefined) {
    if (error === null) return <Loading what="the selected step" />;
    return <Failed doing="read the selected step" error={error} onRetry={refetch} />;
  }
  const span = asOf(data.span, then) ?? data.span;
  const events = then === null ? data.events : data.events.filter((it) => it.seq <= then.seq);
  const tabs: Tab[] = ["details", "events", ...(hasPrompt(span) ? (["prompt"] as const) : [])];
  const shown = tabs.includes(tab) ? tab : "details";
  return (
    <>
      <SpanHead span={span} onMoment={onMoment} />
      <div className="tabs" role="tablist" aria-label="Views of the selected step">
        {tabs.map((it) => (
          <button
            key={it}
            type="button"
            role="tab"
            aria-selected={it === shown}
            onClick={() => setTab(it)}
          >
            {TABS[it]}
          </button>
        ))}
      </div>
      {error !== null && <Failed doing="read it again" error={error} onRetry={refetch} isStale />}
      {shown === "details" && (
        <>
          {span.kind === "session" && about}
          <DetailsView
            sessionId={sessionId}
            head={head}
            open={open}
            span={span}
            events={events}
            hasMore={data.hasMore}
            onMoment={onMoment}
          />
        </>
      )}
      {shown === "events" && (
        <RawEvents
          events={events}
          hasMore={data.hasMore}
          onMore={() => setPages(pages * 2)}
          onMoment={onMoment}
        />
      )}
      {shown === "prompt" && <PromptOf sessionId={sessionId} span={span} events={events} />}
    </>
  );
});

function hasPrompt(span: Span): boolean {
  return span.kind === "model_call" || span.kind === "step" || span.kind === "attempt";
}

function PromptOf(props: { sessionId: string; span: Span; events: readonly HistoryEvent[] }) {
  const requested = props.events.findLast((it) => it.type === "model_requested");
  if (requested === undefined) return <p className="quiet">The model was not asked here.</p>;
  return <PromptView sessionId={props.sessionId} requested={requested} />;
}

function SpanHead({ span, onMoment }: { span: Span; onMoment: (seq: number) => void }) {
  const words = statusWords(span) || "ok";
  return (
    <header className={`inspector-head kind-${familyOfSpan(span.kind)}`}>
      <h2>
        <span className="inspector-kind">
          {span.kind.replaceAll("_", " ")} {callIdOf(span)}
        </span>{" "}
        {visible(span.name)}
      </h2>
      <p className="inspector-facts">
        <span className={`tree-status is-${span.status}`}>{words}</span>
        <time title={exact(span.start)}>{exact(span.start).slice(0, 19)}</time>
        <span>{span.end === null ? "still open" : duration(span.end - span.start)}</span>
        <span>
          events{" "}
          <button type="button" className="as-link" onClick={() => onMoment(span.firstSeq)}>
            {span.firstSeq}
          </button>
          –
          <button type="button" className="as-link" onClick={() => onMoment(span.lastSeq)}>
            {span.lastSeq}
          </button>
        </span>
      </p>
      {span.detail !== "" && <p className="inspector-detail">{visible(span.detail)}</p>}
    </header>
  );
}
