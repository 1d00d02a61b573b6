import { type ReactNode, useEffect, useRef } from "react";
import type { Approval, Decision } from "../../model/types.ts";
import { Button } from "../button.tsx";
import { leadToName, NameField, useName } from "../name-field.tsx";
import { useArmed } from "../use-armed.ts";
import { argumentsProblem, type Draft } from "./answers.ts";

interface Props {
  readonly approval: Approval;
  readonly actionName: string;
  readonly draft: Draft;
  readonly onDraft: (draft: Draft) => void;
  readonly isSending: boolean;
  readonly onSend: (
    decision: Decision,
    more?: { reason?: string; arguments?: string; output?: string },
  ) => void;
}

/** The buttons, the careful ones first. None of them has the focus by itself. */
export function Answer(props: Props) {
  const { draft } = props;
  const isNamed = useName().trim() !== "";
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: it only leads to the field
    <div className="approval-answer" onClick={leadToName}>
      <NameField />
      {draft.type === "none" ? (
        <Choices {...props} isNamed={isNamed} />
      ) : (
        <Writing {...props} isNamed={isNamed} />
      )}
    </div>
  );
}

interface ChoicesProps extends Props {
  readonly isNamed: boolean;
}

function Choices({ approval, actionName, onDraft, isSending, isNamed, onSend }: ChoicesProps) {
  const isOff = isSending || !isNamed;
  if (approval.question === "what_happened") {
    return (
      <Buttons approval={approval} isOff={isOff}>
        {(press) => (
          <>
            <Button
              kind="danger"
              isOff={isOff}
              onClick={() => onDraft({ type: "failed", reason: "" })}
            >
              It failed…
            </Button>
            <Button isOff={isOff} onClick={() => onDraft({ type: "happened", output: "" })}>
              It happened…
            </Button>
            <Button {...press(() => onSend("did_not_happen"))}>
              It did not happen: {actionName.charAt(0).toLowerCase() + actionName.slice(1)}
            </Button>
          </>
        )}
      </Buttons>
    );
  }
  return (
    <Buttons approval={approval} isOff={isOff}>
      {(press) => (
        <>
          <Button kind="danger" isOff={isOff} onClick={() => onDraft({ type: "deny", reason: "" })}>
            Deny…
          </Button>
          <Button
            isOff={isOff}
            onClick={() => onDraft({ type: "edit", arguments: indented(approval.arguments) })}
          >
            Change the arguments…
          </Button>
          <Button
            title={`Runs it, and later calls of ${approval.tool} in this session without asking`}
            {...press(() => onSend("approve_for_session"))}
          >
            Allow {approval.tool} for this session
          </Button>
          <Button kind="main" {...press(() => onSend("approve"))}>
            {actionName}
          </Button>
        </>
      )}
    </Buttons>
  );
}

/** What a button is given that decides; one that only opens a field needs no such care. */
type Press = (act: () => void) => { readonly isOff: boolean; readonly onClick: () => void };

interface ButtonsProps {
  readonly approval: Approval;
  readonly isOff: boolean;
  readonly children: (press: Press) => ReactNode;
}

/** Buttons about one action: none of them takes a press that was meant for another one. */
function Buttons({ approval, isOff, children }: ButtonsProps) {
  const place = useRef<HTMLDivElement>(null);
  const arming = useArmed(place, approval.id);
  const press: Press = (act) => ({
    isOff: isOff || !arming.isArmed,
    onClick: () => {
      if (arming.mayAct()) act();
    },
  });
  return (
    <div ref={place} className="approval-buttons">
      {children(press)}
    </div>
  );
}

function Writing({ approval, draft, onDraft, isSending, isNamed, onSend }: ChoicesProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const { label, value, change, send, says, problem, rows } = writing(draft, approval);
  return (
    <div className="approval-writing">
      <label>
        {label}
        <textarea
          ref={field}
          rows={rows}
          spellCheck={draft.type !== "edit"}
          className={draft.type === "edit" ? "approval-code" : ""}
          value={value}
          onChange={(event) => onDraft(change(event.target.value))}
        />
      </label>
      {problem !== null && (
        <p className="approval-problem" role="status">
          {problem}
        </p>
      )}
      <Buttons approval={approval} isOff={isSending || !isNamed || problem !== null}>
        {(press) => (
          <>
            <Button onClick={() => onDraft({ type: "none" })}>Back</Button>
            <Button
              kind={draft.type === "deny" || draft.type === "failed" ? "danger" : "main"}
              {...press(() => send(onSend))}
            >
              {says}
            </Button>
          </>
        )}
      </Buttons>
    </div>
  );
}

interface WritingWords {
  readonly label: string;
  readonly value: string;
  readonly rows: number;
  readonly says: string;
  readonly problem: string | null;
  readonly change: (value: string) => Draft;
  readonly send: (onSend: Props["onSend"]) => void;
}

/** Each kind of answer that has a text: how it is asked for, and what is sent. */
function writing(draft: Draft, approval: Approval): WritingWords {
  switch (draft.type) {
    case "edit":
      return {
        label: "Arguments, one JSON object. It runs with exactly these.",
        value: draft.arguments,
        rows: Math.min(20, Math.max(4, draft.arguments.split("\n").length + 1)),
        says: `Run ${approval.tool} with these arguments`,
        problem: argumentsProblem(draft.arguments),
        change: (value) => ({ type: "edit", arguments: value }),
        send: (onSend) => onSend("approve", { arguments: draft.arguments }),
      };
    case "happened":
      return {
        label: "What it gave back, as the model shall see it",
        value: draft.output,
        rows: 4,
        says: "Record that it happened",
        problem: null,
        change: (value) => ({ type: "happened", output: value }),
        send: (onSend) => onSend("happened", { output: draft.output }),
      };
    case "failed":
      return {
        label: "Why it failed. The model sees this.",
        value: draft.reason,
        rows: 2,
        says: "Record that it failed",
        problem: null,
        change: (value) => ({ type: "failed", reason: value }),
        send: (onSend) => onSend("failed", { reason: draft.reason }),
      };
    case "deny":
    case "none":
      return {
        label: "Why not. The model sees this.",
        value: draft.type === "deny" ? draft.reason : "",
        rows: 2,
        says: "Deny it",
        problem: null,
        change: (value) => ({ type: "deny", reason: value }),
        send: (onSend) => onSend("deny", { reason: draft.type === "deny" ? draft.reason : "" }),
      };
  }
}

/** Easier to edit; as it was when it is no JSON, or would not be the same any more. */
function indented(json: string): string {
  try {
    const value: unknown = JSON.parse(json);
    return JSON.stringify(value) === json.trim() ? JSON.stringify(value, null, 2) : json;
  } catch {
    return json;
  }
}
