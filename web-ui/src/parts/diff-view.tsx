import { useMemo, useState } from "react";
import { diffSize, firstLines, folded, lineDiff } from "../model/diff.ts";
import { exactly } from "../model/visible.ts";
import { Button } from "./button.tsx";
import "./diff-view.css";

interface Props {
  readonly before: string;
  readonly after: string;
  readonly label: string;
}

const MARKS = { same: " ", added: "+", removed: "−" } as const;

/** Lines that are shown at first, and how many times as many with each "more". */
const LINES_MAX = 1_000;
const GROWTH = 8;

/** What changes from one text to another: marked by a sign and by colour. */
export function DiffView({ before, after, label }: Props) {
  const [linesMax, setLinesMax] = useState(LINES_MAX);
  const [all, size] = useMemo(() => {
    const lines = lineDiff(before, after);
    return [folded(lines), diffSize(lines)] as const;
  }, [before, after]);
  const { blocks, hidden } = useMemo(() => firstLines(all, linesMax), [all, linesMax]);
  return (
    <figure className="diff" aria-label={label}>
      <figcaption className="diff-head">
        <code>{label}</code>
        <span className="diff-size">
          <span className="diff-plus">+{size.added}</span>{" "}
          <span className="diff-minus">−{size.removed}</span>
        </span>
      </figcaption>
      <pre className="diff-text">
        {blocks.map((block, at) =>
          block.type === "gap" ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: the blocks of one diff never move
            <span key={at} className="diff-gap">
              {`  ${block.count} equal lines\n`}
            </span>
          ) : (
            block.lines.map((line, row) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: nor do its lines
              <span key={`${at}.${row}`} className={`diff-line diff-${line.kind}`}>
                {`${MARKS[line.kind]} ${exactly(line.text)}\n`}
              </span>
            ))
          ),
        )}
      </pre>
      {hidden > 0 && (
        <Button kind="quiet" onClick={() => setLinesMax(linesMax * GROWTH)}>
          {hidden} more lines are not shown yet: show more
        </Button>
      )}
    </figure>
  );
}
