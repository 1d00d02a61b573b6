import { eventWords, familyOfEvent } from "../../model/session/family.ts";
import { indented } from "../../model/session/indent.ts";
import type { HistoryEvent } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { clock, exact } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Empty } from "../../parts/states.tsx";

/** Shown of each event at first. */
const LINES_MAX = 24;
const CHARS_MAX = 3_000;

interface Props {
  readonly events: readonly HistoryEvent[];
  readonly hasMore: boolean;
  readonly onMore: () => void;
  readonly onMoment: (seq: number) => void;
}

/** The events as they are stored. */
export function RawEvents({ events, hasMore, onMore, onMoment }: Props) {
  if (events.length === 0) return <Empty title="No event yet at this moment." />;
  return (
    <div className="raw">
      {events.map((event) => (
        <article key={event.seq} className={`raw-event kind-${familyOfEvent(event.type)}`}>
          <header>
            <button type="button" className="as-link" onClick={() => onMoment(event.seq)}>
              {event.seq}
            </button>
            <strong>{eventWords(event.type)}</strong>
            <span className="quiet">{visible(event.actor)}</span>
            <span className="quiet">caused by {event.cause}</span>
            <time className="quiet" title={exact(event.time)}>
              {clock(event.time)}
            </time>
          </header>
          <MachineText
            text={indented(event.bodyJson)}
            linesMax={LINES_MAX}
            charsMax={CHARS_MAX}
            label={`content of event ${event.seq}`}
          />
        </article>
      ))}
      {hasMore && <Button onClick={onMore}>More events</Button>}
    </div>
  );
}
