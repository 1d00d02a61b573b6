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
import { useFocusBack } from "../use-focus-back.ts";
import { useRemembered } from "../use-remembered.ts";
import "./question.css";

interface Props {
  readonly sessionId: string;
  /** `null`: the session waits for a message, and nobody asked for a certain one. */
  readonly question: Question | null;
}

/** What the model asks a person, as text, and the answer beside it. */
export function QuestionCard({ sessionId, question }: Props) {
  const heading = useId();
  const callId = question?.callId ?? "";
  const [text, setText] = useRemembered(`answer ${sessionId} ${callId}`, "");
  // One key for one text: sent twice, it is taken once.
  const [key, setKey] = useState(newKey);
  const isNamed = useName().trim() !== "";
  const send = useSendMessage(sessionId);
  const said = useRef<HTMLParagraphElement>(null);
  useFocusBack();
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
  const answers = callId === "" ? "" : ` --answers ${callId}`;
  const label = question === null ? "Your message" : "Your answer";
  return (
    <article className="question" aria-labelledby={heading}>
      <h2 id={heading} tabIndex={-1} className="approval-question">
        {question === null ? "It waits for a message" : `The model asks (call ${callId})`}
      </h2>
      {question !== null && <MachineText text={question.text} label="question" />}
      <NameField />
      <form
        className="question-answer"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <input
          value={text}
          aria-label={label}
          placeholder={label}
          onChange={(event) => setText(event.target.value)}
        />
        <Button kind="main" type="submit" isOff={send.isPending || !isNamed || text.trim() === ""}>
          Send
        </Button>
      </form>
      <p ref={said} tabIndex={-1} role="status" className="question-said">
        {send.isSuccess && "It is sent; the session goes on with it."}
      </p>
      {send.error !== null && <Failed doing="send the answer" error={send.error} />}
      <CliLine line={`stepwell send ${sessionId} ${shellWord(text || "…")}${answers}`} />
    </article>
  );
}
