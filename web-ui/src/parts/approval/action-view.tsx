import { TriangleAlert } from "lucide-react";
import { useState } from "react";
import { type Action, type Argument, actionOf, hiddenIn } from "../../model/action.ts";
import { exactly } from "../../model/visible.ts";
import { count } from "../../model/words.ts";
import { Button } from "../button.tsx";
import { DiffView } from "../diff-view.tsx";

/** The exact action, whole and with nothing hidden in it: what a person says yes or no to. */
export function ActionView({
  tool,
  argumentsJson,
}: {
  readonly tool: string;
  readonly argumentsJson: string;
}) {
  const hidden = hiddenIn(argumentsJson);
  return (
    <div className="approval-action">
      <ActionBody tool={tool} action={actionOf(argumentsJson)} />
      {hidden > 0 && (
        <p className="approval-careful">
          <TriangleAlert size={14} aria-hidden />
          Careful: {hidden} hidden or controlling {hidden === 1 ? "character" : "characters"}, shown
          as {"<U+….>"}
        </p>
      )}
    </div>
  );
}

function ActionBody({ tool, action }: { readonly tool: string; readonly action: Action }) {
  switch (action.type) {
    case "command":
      return (
        <>
          <Exact label={`${tool} command`} text={action.command} prompt="$ " />
          <Arguments rest={action.rest} />
        </>
      );
    case "edit":
      return (
        <>
          <DiffView label={exactly(action.path)} before={action.before} after={action.after} />
          <Arguments rest={action.rest} />
        </>
      );
    case "write":
      return (
        <>
          <p className="quiet">
            {tool} sets the whole content of <code>{exactly(action.path)}</code>
          </p>
          <Exact label="content" text={action.content} />
          <Arguments rest={action.rest} />
        </>
      );
    case "other":
      return action.rest.length === 0 ? (
        <p className="quiet">{tool}, without arguments</p>
      ) : (
        <Arguments rest={action.rest} />
      );
    case "raw":
      return <Exact label="arguments" text={action.text} />;
  }
}

function Arguments({ rest }: { readonly rest: readonly Argument[] }) {
  if (rest.length === 0) return null;
  return (
    <dl className="approval-arguments">
      {rest.map(({ name, text }) => (
        <div key={name}>
          <dt>
            <code>{exactly(name)}</code>
          </dt>
          <dd>
            <Exact label={name} text={text} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** More of a text is shown only on request: the page must not stand still. */
const CHARS_MAX = 100_000;

interface ExactProps {
  readonly label: string;
  readonly text: string;
  readonly prompt?: string;
}

function Exact({ label, text, prompt = "" }: ExactProps) {
  const [isWhole, setWhole] = useState(false);
  const hidden = isWhole ? 0 : Math.max(0, text.length - CHARS_MAX);
  // The end of what is asked for matters most, so it is the middle that waits.
  const half = CHARS_MAX / 2;
  const shown =
    hidden === 0
      ? exactly(text)
      : `${exactly(text.slice(0, half))}\n<${hidden} characters more>\n${exactly(text.slice(-half))}`;
  return (
    <figure className="exact" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it */}
      <pre className="exact-text" tabIndex={0}>
        {prompt !== "" && (
          <span className="exact-prompt" aria-hidden="true">
            {prompt}
          </span>
        )}
        {shown}
      </pre>
      {hidden > 0 && (
        <Button kind="quiet" onClick={() => setWhole(true)}>
          Show the {count(hidden)} characters between
        </Button>
      )}
    </figure>
  );
}
