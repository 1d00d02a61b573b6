import { useEffect, useRef } from "react";
import { Link } from "wouter";
import { address } from "../../address.ts";
import { useSession } from "../../api/queries.ts";
import { questions, takesMessage } from "../../model/asked.ts";
import type { SessionRow } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { shortId } from "../../model/words.ts";
import { QuestionCard } from "../../parts/question/question-card.tsx";
import { useAsked } from "../../parts/question/use-asked.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { ToneMark } from "../../parts/status-mark.tsx";
import { Age } from "../../parts/time.tsx";

interface LineProps {
  readonly session: SessionRow;
  readonly isChosen: boolean;
}

/** A session that waits for what a person says. */
export function QuestionLine({ session, isChosen }: LineProps) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (isChosen) link.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return (
    <Link
      ref={link}
      href={address.approval(session.id)}
      className="inbox-line"
      aria-current={isChosen ? "true" : undefined}
    >
      <ToneMark tone="needs" />
      <span className="inbox-what">
        <span>{visible(session.title)}</span>
        <span className="quiet">
          {visible(session.explain)}
          {" · "}
          {shortId(session.id)}
        </span>
      </span>
      <span className="inbox-when">
        <Age at={session.updatedAt} />
      </span>
    </Link>
  );
}

/** What one session asks, and where it can be answered. */
export function AskedSession({ sessionId }: { readonly sessionId: string }) {
  const { data, error, refetch } = useSession(sessionId);
  const asked = useAsked(data === undefined ? [] : questions(data.openCalls));
  if (data === undefined) {
    if (error === null) return <Loading what="the question" />;
    return <Failed doing="read the question" error={error} onRetry={refetch} />;
  }
  const isListening = takesMessage(data);
  return (
    <div className="inbox-asked">
      <p>
        <Link href={address.session(sessionId)}>{visible(data.session.title)}</Link>{" "}
        <code className="quiet">{shortId(sessionId)}</code>
      </p>
      {error !== null && (
        <Failed doing="read the question" error={error} onRetry={refetch} isStale />
      )}
      {asked.map((it) => (
        <QuestionCard key={it.question.callId} sessionId={sessionId} {...it} />
      ))}
      {isListening && <QuestionCard sessionId={sessionId} question={null} />}
      {!asked.some((it) => it.isOpen) && !isListening && (
        <p role="status">Nothing is asked any more: {visible(data.session.explain)}</p>
      )}
    </div>
  );
}
