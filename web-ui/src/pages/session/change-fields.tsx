import {
  type ChangeKind,
  type DraftChange,
  KIND_WORDS,
  needsCall,
} from "../../model/session/fork-draft.ts";

const KINDS = Object.keys(KIND_WORDS) as ChangeKind[];

interface Props {
  readonly change: DraftChange;
  readonly onChange: (more: Partial<DraftChange>) => void;
}

/** One thing that is otherwise in a fork. */
export function ChangeFields({ change, onChange }: Props) {
  return (
    <>
      <label>
        What
        <select
          value={change.kind}
          onChange={(event) => onChange({ kind: event.target.value as ChangeKind })}
        >
          {KINDS.map((kind) => (
            <option key={kind} value={kind}>
              {KIND_WORDS[kind]}
            </option>
          ))}
        </select>
      </label>
      {needsCall(change.kind) && (
        <label>
          Call
          <input
            className="fork-call"
            value={change.callId}
            placeholder="3.1"
            onChange={(event) => onChange({ callId: event.target.value.trim() })}
          />
        </label>
      )}
      {change.kind === "reply" && (
        <label>
          Step
          <input
            className="fork-call"
            inputMode="numeric"
            value={change.step === 0 ? "" : change.step}
            placeholder="the open one"
            onChange={(event) => onChange({ step: Number.parseInt(event.target.value, 10) || 0 })}
          />
        </label>
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
