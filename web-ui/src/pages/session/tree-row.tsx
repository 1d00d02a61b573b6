import { createContext, memo, useContext } from "react";
import { familyOfSpan } from "../../model/session/family.ts";
import { callIdOf, isBad, type Span, statusWords } from "../../model/session/spans.ts";
import { place, type TimeScale, timeScale } from "../../model/session/time-scale.ts";
import { visible } from "../../model/visible.ts";
import { duration, exact } from "../../model/words.ts";
import { KindShape } from "./kind-shape.tsx";

/** Longest name or detail of a row, in characters. */
const WORDS_CHARS_MAX = 160;
/** Pixels that a row stands further right than what it is in … */
const INDENT = 16;
/** … and that its button to fold takes, with the gap behind it. */
const FOLD_WIDTH = 20;
/** Pixels that the bar of the shortest time has: that it is there, and where, must be seen. */
const BAR_WIDTH_MIN = 8;
/** More pauses than these would hide what is between them. */
const FOLDS_MAX = 12;

interface Props {
  readonly row: number;
  readonly top: number;
  /** `undefined` while it is read, `null` when it had not begun at the moment that is shown. */
  readonly span: Span | null | undefined;
  readonly isSelected: boolean;
  readonly onSelect: (span: Span, row: number) => void;
  readonly onFold: (span: Span) => void;
}

/** What the bars of all rows are drawn over: it changes far more often than the rows. */
export const BarScale = createContext<BarScaleOf>({
  scale: timeScale(new Float64Array(), 0, 0),
  now: 0,
});

interface BarScaleOf {
  readonly scale: TimeScale;
  /** Where the bar of an open span ends. */
  readonly now: number;
}

export const TreeRow = memo(function TreeRow(props: Props) {
  const { row, top, span, isSelected, onSelect, onFold } = props;
  const style = { top };
  if (span === null) return null;
  if (span === undefined)
    return <div className="tree-row is-unread" style={style} aria-hidden="true" />;
  const { isFolded } = span;
  const family = isBad(span.status) ? "error" : familyOfSpan(span.kind);
  const words = statusWords(span);
  const callId = callIdOf(span);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys
    <div
      id={`span-${span.id}`}
      className={`tree-row kind-${family}`}
      style={style}
      role="row"
      tabIndex={-1}
      aria-level={span.depth + 1}
      aria-rowindex={row + 1}
      aria-selected={isSelected}
      aria-expanded={span.children === 0 ? undefined : !isFolded}
      onClick={() => onSelect(span, row)}
    >
      <Bar start={span.start} end={span.end} />
      <span
        className="tree-name"
        role="gridcell"
        style={{ paddingLeft: span.depth * INDENT + (span.children > 0 ? 0 : FOLD_WIDTH) }}
      >
        {span.children > 0 && (
          <button
            type="button"
            className={isFolded ? "tree-fold is-folded" : "tree-fold"}
            tabIndex={-1}
            aria-label={isFolded ? "unfold" : "fold"}
            onClick={(event) => {
              event.stopPropagation();
              onFold(span);
            }}
          ></button>
        )}
        <KindShape kind={span.kind} />
        <span className="tree-words">
          {callId !== "" && <span className="tree-call">{callId}</span>}
          {shortened(span.name)}
          {span.detail !== "" && <span className="tree-detail">{shortened(span.detail)}</span>}
        </span>
        {isFolded && span.size !== null && span.size > 1 && (
          <span className="quiet">+{span.size - 1}</span>
        )}
        {words !== "" && <span className={`tree-status is-${span.status}`}>{words}</span>}
      </span>
      <span className="tree-time" role="gridcell" title={exact(span.start)}>
        {span.end === null ? "…" : duration(span.end - span.start)}
      </span>
    </div>
  );
});

function shortened(words: string): string {
  return visible(words.slice(0, WORDS_CHARS_MAX));
}

interface BarProps {
  readonly start: number;
  /** `null` while it is open. */
  readonly end: number | null;
}

function Bar({ start, end }: BarProps) {
  const { scale, now } = useContext(BarScale);
  const until = end ?? Math.max(now, start);
  if (until < scale.from || start > scale.to) return null;
  const left = place(scale, start);
  const width = place(scale, until) - left;
  return (
    <span
      className={end === null ? "tree-bar is-open" : "tree-bar"}
      style={{ left: `min(${left * 100}%, 100% - ${BAR_WIDTH_MIN}px)`, width: `${width * 100}%` }}
      aria-hidden="true"
    />
  );
}

/** Where a pause is folded, behind all rows. */
export function Folds({ scale }: { readonly scale: TimeScale }) {
  if (scale.folds.length > FOLDS_MAX) return null;
  return scale.folds.map((fold) => (
    <span
      key={fold.from}
      className="tree-pause"
      title={`nothing happened for ${duration(fold.to - fold.from)}`}
      style={{ left: `${fold.x * 100}%`, width: `${fold.width * 100}%` }}
      aria-hidden="true"
    />
  ));
}
