import { ArrowRight, Clock, GitFork, Hourglass, Unplug } from "lucide-react";
import { failure } from "../../api/failure.ts";
import { insteadWords, momentWords, readingWords } from "../../model/session/shown.ts";
import type { Then } from "../../model/session/spans.ts";
import { visible } from "../../model/visible.ts";
import { clock, exact } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import { Failed } from "../../parts/states.tsx";

interface PastProps {
  readonly then: Then;
  readonly length: number;
  /** What the session waited for then. */
  readonly explain: string;
  readonly canFork: boolean;
  readonly onLive: () => void;
  readonly onFork: () => void;
}

/** Says plainly that this is not now. */
export function PastBar({ then, length, explain, canFork, onLive, onFork }: PastProps) {
  return (
    <section className="notice is-past" aria-label="The past">
      <Clock size={16} aria-hidden />
      <div className="notice-words">
        <p>
          As it was at event {then.seq} of {length}, {exact(then.time)}.
        </p>
        {explain !== "" && <p className="quiet">{visible(explain)}</p>}
      </div>
      <Button icon={<ArrowRight size={14} aria-hidden />} onClick={onLive}>
        Back to now
      </Button>
      {canFork && (
        <Button icon={<GitFork size={14} aria-hidden />} onClick={onFork}>
          Fork from here
        </Button>
      )}
    </section>
  );
}

interface OtherProps {
  /** The moment that was asked for, and the one on the screen; `null` is now. */
  readonly wanted: number | null;
  readonly shown: number | null;
}

/** Another moment was asked for than the one on the screen. */
export function ReadingBar({ wanted, shown }: OtherProps) {
  return (
    <section className="notice is-reading" aria-label="Reading">
      <Hourglass size={16} aria-hidden />
      <p role="status">{readingWords(wanted, shown)}</p>
    </section>
  );
}

interface UnreadProps extends OtherProps {
  readonly error: unknown;
  readonly onRetry: () => void;
}

/** The moment that was asked for could not be read: what is on the screen is another, or older. */
export function UnreadBar({ wanted, shown, error, onRetry }: UnreadProps) {
  if (wanted === shown) {
    return <Failed doing={`read ${momentWords(wanted)}`} error={error} onRetry={onRetry} isStale />;
  }
  return (
    <Failed
      doing={`read ${momentWords(wanted)}`}
      error={error}
      onRetry={failure(error).kind === "not_found" ? undefined : onRetry}
      rest={insteadWords(shown)}
    />
  );
}

/** The address names a moment that is not there. */
export function BeyondBar({ seq, head }: { readonly seq: number; readonly head: number }) {
  return (
    <section className="notice tone-ground-failed" aria-label="No such moment">
      <p>
        There is no event {seq}: the last is {head}. This is now.
      </p>
    </section>
  );
}

/** The server is not heard any more: since when, what stays, and that nothing need be done. */
export function LostBar({ since }: { readonly since: number }) {
  return (
    <section className="notice tone-ground-failed" aria-label="No connection">
      <Unplug size={16} aria-hidden />
      <p role="status">
        No connection to the server since <time title={exact(since)}>{clock(since)}</time>. What you
        see was read before and stays; it is tried again by itself.
      </p>
    </section>
  );
}

/** It was deleted while somebody looked. */
export function GoneBar() {
  return (
    <section className="notice tone-ground-failed" aria-label="Deleted">
      <p role="status">
        This session is not there any more: it was deleted. What you see was read before, and
        nothing of it can be changed or read again.
      </p>
    </section>
  );
}
