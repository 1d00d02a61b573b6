import { useId, useRef, useState } from "react";
import { useSendMessage } from "../../api/history-queries.ts";
import type { Question } from "../../model/asked.ts";
import { newKey } from "../../model/session/new-key.ts";
import { shellWord } from "../../model/shell.ts";
import { readName } from "../../preferences.ts";
import { Button } from "../button.tsx";
import { CliLine } from "../copy.tsx";
import { MachineText } from "../machine-text.tsx";
import { NameField, useName } from "../name-field.tsx";
import { Failed } from "../states.tsx";
import { useFocusAfter, useFocusBack } from "../use-focus-back.ts";
import { useRemembered } from "../use-remembered.ts";
import "./question.css";

interface Props {
  readonly sessionId: string;
  /** `null`: the session waits for a message, and nobody asked for a certain one. */
  readonly question: Question | null;
  /** Nobody answered it yet. */
  readonly isOpen?: boolean;
}

/** What the model asks a person, as text, and the answer beside it. */
export function QuestionCard({ sessionId, question, isOpen = true }: Props) {
  const heading = useId();
  const callId = question?.callId ?? "";
  const [text, setText] = useRemembered(`answer ${sessionId} ${callId}`, "");
  // One key for one text: sent twice, it is taken once.
  const [key, setKey] = useState(newKey);
  const isNamed = useName().trim() !== "";
  const send = useSendMessage(sessionId);
  const said = useRef<HTMLParagraphElement>(null);
  useFocusBack();
  useFocusAfter(said, !isOpen);
  const submit = () => {
    if (text.trim() === "" || !isNamed || send.isPending) return;
    send.mutate(
      { content: text, key, by: readName(), answersCallId: callId },
      {
        onSuccess: () => {
          setText("");
          setKey(newKey());
          said.current?.focus();
        },
      },
    );
  };
  if (!isOpen && text === "") return null;
  return (
    <article className="question" tabIndex={-1} aria-labelledby={heading}>
      <h2 id={heading} tabIndex={-1} className="approval-question">
        {question === null ? "It waits for a message" : `The model asks (call ${callId})`}
      </h2>
      {question !== null && <MachineText text={question.text} label="question" />}
      <p ref={said} tabIndex={-1} role="status" className="question-said">
        {isOpen && send.isSuccess && "It is sent; the session goes on with it."}
        {!isOpen && "It was answered meanwhile; what counts stands in the conversation."}
      </p>
      {isOpen ? (
        <>
          <NameField />
          <AnswerField
            label={question === null ? "Your message" : "Your answer"}
            text={text}
            isOff={send.isPending || !isNamed || text.trim() === ""}
            onText={setText}
            onSubmit={submit}
          />
          {send.error !== null && <Failed doing="send the answer" error={send.error} />}
          <CliLine line={answerLine(sessionId, text, callId)} />
        </>
      ) : (
        <TooLate text={text} onClose={() => setText("")} />
      )}
    </article>
  );
}

interface FieldProps {
  readonly label: string;
  readonly text: string;
  readonly isOff: boolean;
  readonly onText: (text: string) => void;
  readonly onSubmit: () => void;
}

function AnswerField({ label, text, isOff, onText, onSubmit }: FieldProps) {
  return (
    <form
      className="question-answer"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      <input
        value={text}
        aria-label={label}
        placeholder={label}
        onChange={(event) => onText(event.target.value)}
      />
      <Button kind="main" type="submit" isOff={isOff}>
        Send
      </Button>
    </form>
  );
}

/** Somebody else was faster: what was written here is not lost, and was not taken. */
function TooLate({ text, onClose }: { readonly text: string; readonly onClose: () => void }) {
  return (
    <div className="failed">
      <div className="failed-words">
        <p>Your answer was not taken:</p>
        <MachineText text={text} label="answer that was not taken" />
      </div>
      <Button onClick={onClose}>Put it away</Button>
    </div>
  );
}

function answerLine(sessionId: string, text: string, callId: string): string {
  const answers = callId === "" ? "" : ` --answers ${callId}`;
  return `stepwell send ${sessionId} ${shellWord(text || "…")}${answers}`;
}
