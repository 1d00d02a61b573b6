import { useState } from "react";
import { useExactPrompt, usePromptDiff } from "../../api/prompt-queries.ts";
import type { HistoryEvent } from "../../model/types.ts";
import { bytes } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import { CliLine } from "../../parts/copy.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Failed, Loading } from "../../parts/states.tsx";

/** Added messages that are written out. */
const MESSAGES_SHOWN = 40;

/** Read at once of the exact bytes; more on demand. */
const BYTES_FIRST = 256 * 1024;
const GROWTH = 8;

interface Props {
  readonly sessionId: string;
  readonly requested: HistoryEvent;
}

/** The request to the model: what it has more than the one before, and how to get every byte. */
export function PromptView({ sessionId, requested }: Props) {
  const body = JSON.parse(requested.bodyJson) as { step: number };
  const { data, error, refetch } = usePromptDiff(sessionId, requested.seq, body.step);
  if (data === undefined) {
    if (error === null) return <Loading what="the prompt" />;
    return <Failed doing="read the prompt" error={error} onRetry={refetch} />;
  }
  const { before, added, total, promptBytes, hasSameHead } = data;
  return (
    <div className="details">
      <dl className="facts">
        <dt>whole request</dt>
        <dd>
          {total} messages, {bytes(promptBytes)}
        </dd>
        {body.step > 1 && (
          <>
            <dt>same as in step {body.step - 1}</dt>
            <dd>
              {before} messages
              {hasSameHead ? "" : "; model, instructions or tools are others: no cache holds"}
            </dd>
          </>
        )}
        <dt>added</dt>
        <dd>{total - before} messages</dd>
      </dl>
      <ExactPrompt sessionId={sessionId} step={body.step} />
      {added.slice(0, MESSAGES_SHOWN).map((it) => (
        <section key={it.number} className="details-part is-added">
          <h3>
            + {it.role} <span className="quiet">message {it.number}</span>
          </h3>
          <MachineText
            text={[it.text, ...it.calls.map((call) => `${call.name} ${call.arguments}`)]
              .filter((text) => text !== "")
              .join("\n")}
          />
        </section>
      ))}
    </div>
  );
}

interface ExactProps {
  readonly sessionId: string;
  readonly step: number;
}

/** Every byte that was sent, and whether they are the recorded ones. */
function ExactPrompt({ sessionId, step }: ExactProps) {
  const [bytesMax, setBytesMax] = useState(0);
  const { data, error, isFetching, refetch } = useExactPrompt(sessionId, step, bytesMax);
  return (
    <section className="details-part">
      <CliLine line={`stepwell prompt ${sessionId} --step ${step}`} />
      {data !== undefined && (
        <>
          <p className={data.isRecorded ? "quiet" : "tone-failed"}>
            {data.isRecorded
              ? "Its digest is the recorded one."
              : "These are not the bytes that were sent: their digest is another one."}
          </p>
          <MachineText text={data.text} label="exact request" />
        </>
      )}
      {error !== null && <Failed doing="read the request" error={error} onRetry={refetch} />}
      {data?.isAll !== true && (
        <Button
          disabled={isFetching}
          onClick={() => setBytesMax(bytesMax === 0 ? BYTES_FIRST : bytesMax * GROWTH)}
        >
          {isFetching ? "reading …" : bytesMax === 0 ? "Read the exact bytes" : "Read more"}
        </Button>
      )}
    </section>
  );
}
