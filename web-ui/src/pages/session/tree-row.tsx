import { ChevronDown, ChevronRight } from "lucide-react";
import { memo } from "react";
import { familyOfSpan } from "../../model/session/family.ts";
import { callIdOf, isBad, type Span, statusWords } from "../../model/session/spans.ts";
import { place, type TimeScale } from "../../model/session/time-scale.ts";
import { visible } from "../../model/visible.ts";
import { duration, exact } from "../../model/words.ts";
import { KindShape } from "./kind-shape.tsx";

/** Longest name or detail of a row, in characters. */
const WORDS_CHARS_MAX = 160;

interface Props {
  readonly row: number;
  readonly top: number;
  /** `null` while it is read. */
  readonly span: Span | null;
  readonly scale: TimeScale;
  /** Where the bar of an open span ends. */
  readonly now: number;
  readonly isSelected: boolean;
  readonly onSelect: (span: Span, row: number) => void;
  readonly onFold: (span: Span) => void;
}

export const TreeRow = memo(function TreeRow(props: Props) {
  const { row, top, span, scale, now, isSelected, onSelect, onFold } = props;
  const style = { transform: `translateY(${top}px)` };
  if (span === null) return <div className="tree-row is-unread" style={style} aria-hidden="true" />;
  const { isFolded } = span;
  const end = span.end ?? Math.max(now, span.start);
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
      <Bar scale={scale} start={span.start} end={end} isOpen={span.end === null} />
      <span className="tree-name" role="gridcell" style={{ paddingLeft: span.depth * 16 }}>
        <button
          type="button"
          className="tree-fold"
          tabIndex={-1}
          aria-label={isFolded ? "unfold" : "fold"}
          hidden={span.children === 0}
          onClick={(event) => {
            event.stopPropagation();
            onFold(span);
          }}
        >
          {isFolded ? <ChevronRight size={14} /> : <ChevronDown size={14} />}
        </button>
        <KindShape kind={span.kind} />
        <span className="tree-words">
          {callId !== "" && <span className="tree-call">{callId}</span>}
          {shortened(span.name)}
          {span.detail !== "" && <span className="tree-detail">{shortened(span.detail)}</span>}
        </span>
        {isFolded && span.size > 1 && <span className="quiet">+{span.size - 1}</span>}
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
  readonly scale: TimeScale;
  readonly start: number;
  readonly end: number;
  readonly isOpen: boolean;
}

function Bar({ scale, start, end, isOpen }: BarProps) {
  const left = place(scale, start);
  const width = place(scale, end) - left;
  if (end < scale.from || start > scale.to) return null;
  return (
    <span
      className={isOpen ? "tree-bar is-open" : "tree-bar"}
      style={{ left: `${left * 100}%`, width: `${width * 100}%` }}
      aria-hidden="true"
    />
  );
}

/** Where a pause is folded, behind all rows. */
export function Folds({ scale }: { readonly scale: TimeScale }) {
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
