import { useMemo, useState } from "react";
import { beginning, hiddenWords, visible } from "../model/visible.ts";
import { Button } from "./button.tsx";

/** What is shown at first … */
const CHARS_MAX = 8_000;
const LINES_MAX = 120;
/** … and how many times as much with each "more". */
const GROWTH = 8;

interface Props {
  readonly text: string;
  /** Long lines are wrapped, not scrolled. */
  readonly wrap?: boolean;
  readonly label?: string;
  readonly charsMax?: number;
  readonly linesMax?: number;
  /** Without a ground of its own: it stands among others of its kind. */
  readonly isPlain?: boolean;
}

/** Text that a model, a tool or a file wrote: never markup, never so long that the page stands still. */
export function MachineText(props: Props) {
  const { text, wrap = true, label, charsMax = CHARS_MAX, linesMax = LINES_MAX } = props;
  const [times, setTimes] = useState(1);
  const shown = useMemo(() => {
    const it = beginning(text, charsMax * times, linesMax * times);
    return { ...it, text: visible(it.text) };
  }, [text, charsMax, linesMax, times]);
  const look = `machine-text${wrap ? " wrap" : ""}${props.isPlain === true ? " is-plain" : ""}`;
  return (
    <figure className="machine" aria-label={label}>
      <pre className={look}>{shown.text}</pre>
      {shown.hiddenChars > 0 && (
        <p className="machine-more">
          {hiddenWords(shown)}
          <Button kind="quiet" onClick={() => setTimes(times * GROWTH)}>
            Show more
          </Button>
        </p>
      )}
    </figure>
  );
}
