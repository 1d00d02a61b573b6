import { Plus, TriangleAlert, X } from "lucide-react";
import { useDeferredValue, useId, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { address } from "../../address.ts";
import { type Hazard, useFork, useForkPlan } from "../../api/fork-queries.ts";
import {
  type DraftChange,
  emptyDraft,
  type ForkDraft,
  forkLine,
  missing,
  withChange,
} from "../../model/session/fork-draft.ts";
import { type Moment as At, agentOf, begun, offersAt } from "../../model/session/fork-offers.ts";
import { newKey } from "../../model/session/new-key.ts";
import type { Strip } from "../../model/session/strip.ts";
import { shellWord } from "../../model/shell.ts";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { CliLine } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { readName } from "../../preferences.ts";
import { ChangeFields } from "./change-fields.tsx";

interface Props {
  readonly sessionId: string;
  readonly title: string;
  /** The moment that is shown; `null` for now. */
  readonly seq: number | null;
  /** The session then. */
  readonly moment: At;
  readonly strip: Strip;
  /** The call that the person had selected: another result of it is a first change to begin with. */
  readonly callId: string | null;
  readonly onClose: () => void;
}

/** Another way from a moment on: what is otherwise, what may be done twice, and the button. */
export function ForkDialog(props: Props) {
  const { sessionId, title, seq, moment, strip, callId, onClose } = props;
  const holds = useMemo(() => agentOf(moment.agentJson), [moment]);
  const [draft, setDraft] = useState<ForkDraft>(() => {
    if (callId === null) return emptyDraft(seq);
    const offers = offersAt(moment, strip, null);
    return { ...emptyDraft(null), changes: [begun("result", offers, callId)] };
  });
  const offers = useMemo(() => offersAt(moment, strip, draft.at), [moment, strip, draft.at]);
  const [key] = useState(newKey);
  const [, go] = useLocation();
  const fork = useFork(sessionId);
  const set = (more: Partial<ForkDraft>) => setDraft((before) => ({ ...before, ...more }));
  const problem = missing(draft);
  // What is only not written yet is no mistake.
  const [isTried, setTried] = useState(false);
  const change = (at: number, more: Partial<DraftChange>) => {
    setTried(!("kind" in more));
    setDraft((before) => withChange(before, at, more));
  };
  const add = () => {
    setTried(false);
    set({ changes: [...draft.changes, begun("message", offers)] });
  };
  const make = () => {
    setTried(true);
    if (problem !== null) return;
    fork.mutate(
      { draft, key, by: readName() },
      {
        onSuccess: (session) => {
          onClose();
          go(address.session(session.id));
        },
      },
    );
  };
  return (
    <Dialog title={`Fork ${title}`} onClose={onClose} className="fork">
      <h2>Fork “{visible(title)}”</h2>
      <Moment draft={draft} seq={seq} onAt={(at) => set({ at })} />
      {draft.changes.map((it, at) => (
        <fieldset
          // biome-ignore lint/suspicious/noArrayIndexKey: changes have no name but their place
          key={at}
          className="fork-change"
          onBlur={({ target }) => target.matches("textarea, input") && setTried(true)}
        >
          <legend>Change {at + 1}</legend>
          <ChangeFields change={it} offers={offers} onChange={(more) => change(at, more)} />
          <Button
            kind="quiet"
            icon={<X size={14} aria-hidden />}
            aria-label={`remove change ${at + 1}`}
            onClick={() => set({ changes: draft.changes.filter((_, it) => it !== at) })}
          />
        </fieldset>
      ))}
      <Button kind="quiet" icon={<Plus size={14} aria-hidden />} onClick={add}>
        Change something
      </Button>
      <More
        draft={draft}
        holds={holds}
        title={title}
        onSet={(more) => {
          setTried(true);
          set(more);
        }}
      />
      <Plan sessionId={sessionId} draft={draft} />
      <p className="tone-failed" role="status">
        {isTried && problem}
      </p>
      {fork.error !== null && <Failed doing="make the fork" error={fork.error} />}
      <p>
        <CliLine line={forkLine(sessionId, draft, shellWord)} />
      </p>
      <div className="dialog-actions">
        <Button onClick={onClose}>Not now</Button>
        <Button kind="main" isOff={fork.isPending || (isTried && problem !== null)} onClick={make}>
          {draft.isHeld ? "Fork and hold" : "Fork and run"}
        </Button>
      </div>
    </Dialog>
  );
}

interface MomentProps {
  readonly draft: ForkDraft;
  readonly seq: number | null;
  readonly onAt: (at: number | null) => void;
}

function Moment({ draft, seq, onAt }: MomentProps) {
  const name = useId();
  return (
    <fieldset className="fork-moment">
      <legend>Where it parts</legend>
      {seq !== null && (
        <label>
          <input type="radio" name={name} checked={draft.at === seq} onChange={() => onAt(seq)} />
          after event {seq}, which is shown
        </label>
      )}
      <label>
        <input type="radio" name={name} checked={draft.at === null} onChange={() => onAt(null)} />
        {draft.changes.length > 0
          ? "right before the first thing that is changed"
          : "right before the end"}
      </label>
    </fieldset>
  );
}

interface MoreProps {
  readonly draft: ForkDraft;
  /** What holds where it is not said otherwise. */
  readonly holds: { readonly model: string; readonly instructions: string };
  readonly title: string;
  readonly onSet: (more: Partial<ForkDraft>) => void;
}

function More({ draft, holds, title, onSet }: MoreProps) {
  return (
    <details className="fork-more">
      <summary>Another model, instructions, title, workspace</summary>
      <label>
        Model
        <input
          value={draft.model ?? holds.model}
          onChange={(event) => onSet({ model: other(event.target.value, holds.model) })}
        />
      </label>
      <label>
        Instructions
        <textarea
          rows={6}
          value={draft.instructions ?? holds.instructions}
          onChange={(event) =>
            onSet({ instructions: other(event.target.value, holds.instructions) })
          }
        />
      </label>
      <label>
        Title
        <input
          value={draft.title ?? title}
          onChange={(event) => onSet({ title: other(event.target.value, title) })}
        />
      </label>
      <label>
        Workspace
        <input
          value={draft.workspace}
          placeholder="the same folder, with its files as they are now"
          onChange={(event) => onSet({ workspace: event.target.value })}
        />
      </label>
      <label className="fork-check">
        <input
          type="checkbox"
          checked={draft.isHeld}
          onChange={(event) => onSet({ isHeld: event.target.checked })}
        />
        hold it before it does anything
      </label>
    </details>
  );
}

/** `null` for what is as it was. */
function other(text: string, was: string): string | null {
  return text === was ? null : text;
}

/** What the server says that the fork would be. */
function Plan({ sessionId, draft }: { readonly sessionId: string; readonly draft: ForkDraft }) {
  const settled = useDeferredValue(draft);
  const { data, error } = useForkPlan(sessionId, settled);
  if (error !== null) return <Failed doing="fork there" error={error} />;
  if (missing(draft) !== null) return null;
  if (data === undefined) return <Loading what="what the fork would be" rows={2} />;
  const { at, hazards, workspace, sharesWorkspace } = data;
  return (
    <section className="fork-plan" aria-label="What the fork would be">
      <p>
        Both share events 1 to {at}.
        {sharesWorkspace && workspace !== "" && (
          <> It works in the same folder ({visible(workspace)}): its files are as they are now.</>
        )}
      </p>
      {hazards.length > 0 && <Hazards hazards={hazards} at={at} />}
    </section>
  );
}

const HAZARDS_SHOWN = 8;

function Hazards(props: { readonly hazards: readonly Hazard[]; readonly at: number }) {
  const { hazards, at } = props;
  return (
    <div className="hazards">
      <p>
        <TriangleAlert size={14} aria-hidden /> Calls that change something outside ran after that
        moment or were on their way ({hazards.length}). What they did stays done, and the fork{" "}
        {hazards.every((it) => it.resultGiven) ? "is told otherwise" : "may do it again"}:
      </p>
      <ul>
        {hazards.slice(0, HAZARDS_SHOWN).map((it) => (
          <li key={it.seq}>
            <code>
              {it.callId} {visible(it.tool)} {visible(it.arguments)}
            </code>{" "}
            <span className="quiet">{cameTo(it, at)}</span>
          </li>
        ))}
        {hazards.length > HAZARDS_SHOWN && <li>and {hazards.length - HAZARDS_SHOWN} more</li>}
      </ul>
    </div>
  );
}

/** What it came to in the source, and what the fork does about what was on its way. */
function cameTo(it: Hazard, at: number): string {
  if (it.resultGiven) return `${it.ending}, stays done; the fork is told otherwise`;
  if (it.ending === "not_started") return "not started then";
  if (it.seq > at) return it.ending;
  return `${it.ending}, was on its way: the fork asks what became of it`;
}
