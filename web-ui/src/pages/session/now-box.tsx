import type { State } from "../../api/decode-history.ts";
import { type Growing, type Live, SILENT } from "../../model/session/live.ts";
import { gist } from "../../model/session/messages.ts";
import { visible } from "../../model/visible.ts";
import { MachineText } from "../../parts/machine-text.tsx";
import { KindShape } from "./kind-shape.tsx";

/** Of a growing text the end is what matters. */
const LIVE_CHARS_MAX = 4_000;
const GIST_CHARS_MAX = 200;

interface Props {
  readonly state: State;
  /** `null` in the past: nobody speaks there. */
  readonly live: Live | null;
  readonly onSelect: (callId: string) => void;
}

/** What is under way at the moment that is shown and is no message yet. */
export function NowBox({ state, live, onSelect }: Props) {
  const { content, reasoning, outputs } = live ?? SILENT;
  const isThinking = state.session.status === "thinking";
  return (
    <section className="now" aria-label="Under way">
      <Said who="thinks" text={reasoning} />
      <Said who="assistant" text={content} />
      {isThinking && content.text === "" && reasoning.text === "" && (
        <p className="now-line quiet">the model is asked for step {state.session.steps} …</p>
      )}
      {state.openCalls.map((call) => (
        <div key={call.callId}>
          <button
            type="button"
            className={`now-line ${kindOf(call.status)}`}
            onClick={() => onSelect(call.callId)}
          >
            <KindShape kind={call.status === "awaiting_approval" ? "approval" : "tool_call"} />
            <code>{visible(call.tool)}</code>
            <code className="message-gist">
              {visible(gist(call.arguments).slice(0, GIST_CHARS_MAX))}
            </code>
            <NowStatus words={callWords(call.status, call.worker, call.attempt)} />
          </button>
          <Output text={outputs.get(call.callId)} />
        </div>
      ))}
    </section>
  );
}

function NowStatus({ words }: { readonly words: string }) {
  return (
    <span className="now-status" title={words}>
      {words}
    </span>
  );
}

function kindOf(status: string): string {
  return status === "awaiting_approval" ? "kind-approval" : "kind-tool";
}

function callWords(status: string, worker: string, attempt: number): string {
  const words = status.replaceAll("_", " ");
  const by = worker === "" ? "" : ` to ${worker}`;
  return attempt > 1 ? `${words}${by}, attempt ${attempt}` : `${words}${by}`;
}

function Output({ text }: { readonly text: Growing | undefined }) {
  if (text === undefined || isSilent(text)) return null;
  return (
    <div className="now-output">
      <Pieces text={text} label="output so far" />
    </div>
  );
}

function Said({ who, text }: { readonly who: string; readonly text: Growing }) {
  if (isSilent(text)) return null;
  return (
    <article className="message is-assistant is-growing">
      <span className="message-who">{who}</span>
      <div className="message-body">
        <Pieces text={text} label={`what it ${who === "thinks" ? "thinks" : "says"} so far`} />
      </div>
    </article>
  );
}

function isSilent({ text, broken }: Growing): boolean {
  return text === "" && broken === "";
}

/** What came, and apart from it what had come when the connection broke. */
function Pieces({ text, label }: { readonly text: Growing; readonly label: string }) {
  return (
    <>
      {text.broken !== "" && (
        <>
          <p className="now-broken">until the connection broke:</p>
          <MachineText
            text={theEnd(text.broken, false)}
            isPlain
            label={`${label}, until the connection broke`}
          />
        </>
      )}
      {text.text !== "" && (
        <MachineText text={theEnd(text.text, text.isCut)} isPlain label={label} />
      )}
    </>
  );
}

function theEnd(text: string, isCut: boolean): string {
  if (text.length <= LIVE_CHARS_MAX && !isCut) return text;
  return `…${text.slice(-LIVE_CHARS_MAX)}`;
}
