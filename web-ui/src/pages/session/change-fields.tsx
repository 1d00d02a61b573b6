import { useId } from "react";
import {
  type ChangeKind,
  type DraftChange,
  KIND_WORDS,
  needsCall,
} from "../../model/session/fork-draft.ts";
import {
  begun,
  type CallOffer,
  callWords,
  kindsOf,
  type Offers,
} from "../../model/session/fork-offers.ts";
import { visible } from "../../model/visible.ts";

/** Longest line of a call in a list, in characters. */
const CALL_CHARS_MAX = 80;

interface Props {
  readonly change: DraftChange;
  /** What fits the moment of the fork. */
  readonly offers: Offers;
  readonly onChange: (more: Partial<DraftChange>) => void;
}

/** One thing that is otherwise in a fork. */
export function ChangeFields({ change, offers, onChange }: Props) {
  const fitting = kindsOf(offers);
  // What was chosen for another moment stays to be seen; the server says why it does not fit.
  const kinds = fitting.includes(change.kind) ? fitting : [change.kind, ...fitting];
  return (
    <>
      <label>
        What
        <select
          value={change.kind}
          onChange={(event) => onChange(begun(event.target.value as ChangeKind, offers))}
        >
          {kinds.map((kind) => (
            <option key={kind} value={kind}>
              {KIND_WORDS[kind]}
            </option>
          ))}
        </select>
      </label>
      {needsCall(change.kind) && (
        <CallField
          callId={change.callId}
          calls={change.kind === "result" ? offers.results : offers.arguments}
          isAll={offers.isAll}
          onChange={(callId) => onChange(begun(change.kind, offers, callId))}
        />
      )}
      {change.kind === "reply" && (
        <StepField step={change.step} offers={offers} onChange={onChange} />
      )}
      {change.kind === "result" && (
        <label className="fork-check">
          <input
            type="checkbox"
            checked={change.isError}
            onChange={(event) => onChange({ isError: event.target.checked })}
          />
          it failed
        </label>
      )}
      <textarea
        rows={4}
        aria-label="Text"
        value={change.text}
        spellCheck={false}
        onChange={(event) => onChange({ text: event.target.value })}
      />
    </>
  );
}

interface CallProps {
  readonly callId: string;
  readonly calls: readonly CallOffer[];
  /** There are no others. */
  readonly isAll: boolean;
  readonly onChange: (callId: string) => void;
}

/** Which call: one of those that fit, or by its number where an older one fits, too. */
function CallField({ callId, calls, isAll, onChange }: CallProps) {
  const list = useId();
  const words = (it: CallOffer) => visible(callWords(it)).slice(0, CALL_CHARS_MAX);
  if (!isAll)
    return (
      <label>
        Call
        <input
          className="fork-call"
          value={callId}
          placeholder="3.1"
          list={list}
          onChange={(event) => onChange(event.target.value.trim())}
        />
        <datalist id={list}>
          {calls.map((it) => (
            <option key={it.callId} value={it.callId}>
              {words(it)}
            </option>
          ))}
        </datalist>
      </label>
    );
  return (
    <label>
      Call
      <select value={callId} onChange={(event) => onChange(event.target.value)}>
        {!calls.some((it) => it.callId === callId) && <option value={callId}>{callId}</option>}
        {calls.map((it) => (
          <option key={it.callId} value={it.callId}>
            {words(it)}
          </option>
        ))}
      </select>
    </label>
  );
}

interface StepProps {
  readonly step: number;
  readonly offers: Offers;
  readonly onChange: (more: Partial<DraftChange>) => void;
}

/** Of which step: the one that is awaited, or one that has its reply. */
function StepField({ step, offers, onChange }: StepProps) {
  if (offers.isAll) return null;
  return (
    <label>
      Step
      <input
        className="fork-call"
        inputMode="numeric"
        value={step === 0 ? "" : step}
        placeholder="3"
        onChange={(event) => {
          const to = Number.parseInt(event.target.value, 10) || 0;
          const reply = offers.replies.find((it) => it.step === to);
          onChange(reply === undefined ? { step: to } : { step: to, text: reply.content });
        }}
      />
    </label>
  );
}
