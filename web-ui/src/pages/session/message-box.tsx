import { memo } from "react";
import { gist, type Message, type MessageCall } from "../../model/session/messages.ts";
import { visible } from "../../model/visible.ts";
import { MachineText } from "../../parts/machine-text.tsx";
import { KindShape } from "./kind-shape.tsx";

/** Of a message in the conversation; the inspector has the whole. */
const CHARS_MAX = 1_600;
const LINES_MAX = 14;
const GIST_CHARS_MAX = 200;

interface Props {
  readonly message: Message;
  readonly isSelected: boolean;
  readonly onSelect: (message: Message) => void;
}

export const MessageBox = memo(function MessageBox({ message, isSelected, onSelect }: Props) {
  const who = message.callId === "" ? message.role : `${message.role} ${message.callId}`;
  return (
    <article
      className={
        isSelected ? `message is-${message.role} is-selected` : `message is-${message.role}`
      }
      aria-current={isSelected ? "true" : undefined}
    >
      <button
        type="button"
        className="message-who"
        title={`event ${message.seq}`}
        onClick={() => onSelect(message)}
      >
        {who}
      </button>
      <div className="message-body">
        {message.text !== "" && (
          <MachineText text={message.text} charsMax={CHARS_MAX} linesMax={LINES_MAX} isPlain />
        )}
        {message.calls.map((call) => (
          <CallLine key={call.id} call={call} />
        ))}
        {message.text === "" && message.calls.length === 0 && <p className="quiet">(empty)</p>}
      </div>
    </article>
  );
});

/** A call as the model asked for it. */
function CallLine({ call }: { readonly call: MessageCall }) {
  return (
    <p className="message-call kind-tool">
      <KindShape kind="tool_call" />
      <code className="message-tool">{visible(call.name)}</code>
      <code className="message-gist">{visible(gist(call.arguments).slice(0, GIST_CHARS_MAX))}</code>
    </p>
  );
}
