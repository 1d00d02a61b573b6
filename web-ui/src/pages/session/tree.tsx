import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { SPANS_PAGE, type SpanWindow, useSpanPages } from "../../api/history-queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { offsetOfRow } from "../../model/session/in-sight.ts";
import { asOf, type Span, type Then } from "../../model/session/spans.ts";
import { type Strip, timeAt } from "../../model/session/strip.ts";
import { timeScale } from "../../model/session/time-scale.ts";
import { folded, type TreeView, viewKey } from "../../model/session/tree-view.ts";
import { FIRST, type Goal, LAST } from "../../model/session/tree-walk.ts";
import { Failed, Loading } from "../../parts/states.tsx";
import { BarScale, Folds, TreeRow } from "./tree-row.tsx";
import { useJump } from "./use-jump.ts";
import { useTreeWalk } from "./use-tree-walk.ts";

const ROW_HEIGHT = 24;
const OVERSCAN = 2;

/** What the bars are drawn over: what is in sight, or the whole session. */
export type Zoom = "sight" | "session";

interface Props {
  readonly sessionId: string;
  readonly strip: Strip;
  /** Tells when what was read may have changed. */
  readonly head: number;
  /** Rows that were read already, around what is selected. */
  readonly around: SpanWindow | undefined;
  /** Why they could not be read. */
  readonly error: unknown;
  readonly onRetry: () => void;
  readonly view: TreeView;
  readonly onView: (view: TreeView) => void;
  readonly then: Then | null;
  /** Rows at the moment that is shown, when it is past. */
  readonly rowsThen: number | null;
  readonly selectedId: string | null;
  readonly selected: Span | null;
  /** A person chose it. */
  readonly isChosen: boolean;
  /** Row of the selected span. */
  readonly selectedRow: number | null;
  readonly onSelect: (span: Span, row: number) => void;
  readonly zoom: Zoom;
}

/** The spans of a session as a tree with a bar of time behind each; only rows in sight are read. */
export const Tree = memo(function Tree(props: Props) {
  const { around, error, onRetry } = props;
  if (around !== undefined) return <Rows {...props} around={around} />;
  if (error === null) return <Loading what="the steps" rows={12} />;
  return <Failed doing="read the steps" error={error} onRetry={onRetry} />;
});

interface RowsProps extends Props {
  readonly around: SpanWindow;
}

function Rows(props: RowsProps) {
  const { sessionId, strip, view, then, selectedId, selectedRow, onSelect, around } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [pages, setPages] = useState<readonly number[]>([]);
  const read = useSpanPages(sessionId, view, pages, props.head);
  const { rows, error, retry } = read;
  const all = read.total ?? around.total;
  const count = props.rowsThen ?? all;
  const spanAt = useCallback(
    (row: number): Span | null | undefined => {
      const nowAt = (row: number) => rows.get(row) ?? around.rows[row - around.first];
      const span = nowAt(row);
      return span === undefined ? undefined : asOf(span, then, nowAt(row + 1));
    },
    [rows, around, then],
  );
  // Rows that are only shown until those of another view are read lead nowhere.
  const isOfView = around.view === viewKey(view);
  const rowAt = (row: number) => (isOfView || rows.has(row) ? spanAt(row) : undefined);
  const walk = useTreeWalk({ rowAt, count, selectedRow, onSelect });
  // What is about the session as a whole was chosen by nobody: the newest is what to look at.
  const chosenRow = props.isChosen || (selectedRow ?? 0) > 0 ? selectedRow : count - 1;
  const sightRow = walk.unreadRow ?? chosenRow;
  const lines = useVirtualizer({
    // Another number makes it measure all rows anew, and a past moment only has fewer of the same.
    count: Math.max(count, all),
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
    // At once where it is to be, so that nothing else is read.
    initialOffset: () => Math.max(0, ((sightRow ?? 0) + 1) * ROW_HEIGHT - window.innerHeight),
  });
  const height = lines.scrollRect?.height ?? 0;
  useJump(lines, then?.seq, () => {
    const sight = { offset: lines.scrollOffset ?? 0, height, rowHeight: ROW_HEIGHT, count };
    return sightRow === null ? null : offsetOfRow(sight, sightRow);
  });
  const inSight = lines.getVirtualItems().filter(({ index }) => index < count);
  const pool = usePool(inSight.length);
  const [first, last] = [inSight[0]?.index ?? 0, inSight.at(-1)?.index ?? 0];
  const isAround = first >= around.first && last < endOf(around);
  useEffect(() => {
    if (last > 0 && !isAround) setPages((before) => pagesOf(first, last, before));
  }, [first, last, isAround]);
  // What opens above the tree makes it less high, and the row must not get lost below.
  useEffect(() => {
    if (height > 0 && sightRow !== null && sightRow >= 0 && sightRow < count)
      lines.scrollToIndex(sightRow);
  }, [sightRow, count, height, lines]);

  useTreeKeys({
    view,
    onView: props.onView,
    selected: props.selected === null ? null : asOf(props.selected, then),
    walk: (goal) => {
      walk.go(goal);
      // Where the keys go is said to who hears the page.
      scroller.current?.focus({ preventScroll: true });
    },
    from: walk.from,
    page: Math.max(1, Math.floor(height / ROW_HEIGHT) - 1),
  });
  const scale = useScale(strip, props.zoom, spanAt, first, last, then);
  const now = then?.time ?? timeAt(strip, strip.length);
  const bars = useMemo(() => ({ scale, now }), [scale, now]);
  const { onView } = props;
  const onFold = useCallback((it: Span) => onView(folded(view, it)), [onView, view]);

  return (
    <div
      ref={scroller}
      className={props.zoom === "session" ? "tree is-whole" : "tree"}
      role="treegrid"
      aria-label="Steps"
      aria-rowcount={count}
      aria-activedescendant={selectedId === null ? undefined : `span-${selectedId}`}
      tabIndex={0}
    >
      {error !== null && <Failed doing="read the steps" error={error} onRetry={retry} isStale />}
      <div className="tree-all" role="rowgroup" style={{ height: count * ROW_HEIGHT }}>
        <Folds scale={scale} />
        <BarScale value={bars}>
          {inSight.map(({ index, start }) => {
            const span = spanAt(index);
            return (
              <TreeRow
                // What is elsewhere needs other words, not other elements.
                key={index % pool}
                row={index}
                top={start}
                span={span}
                isSelected={span != null && span.id === selectedId}
                onSelect={walk.select}
                onFold={onFold}
              />
            );
          })}
        </BarScale>
      </div>
    </div>
  );
}

function endOf(window: SpanWindow): number {
  return window.first + window.rows.length;
}

function pagesOf(first: number, last: number, before: readonly number[]): readonly number[] {
  const [from, to] = [Math.floor(first / SPANS_PAGE), Math.floor(last / SPANS_PAGE)];
  const pages = Array.from({ length: to - from + 1 }, (_, at) => from + at);
  return pages.join() === before.join() ? before : pages;
}

/** As many rows as there ever were at once, at least one. */
function usePool(count: number): number {
  const [pool, setPool] = useState(1);
  if (count > pool) setPool(count);
  return Math.max(count, pool);
}

interface Keyed {
  readonly view: TreeView;
  readonly onView: (view: TreeView) => void;
  readonly selected: Span | null;
  readonly walk: (goal: Goal) => void;
  /** The row that keys start from. */
  readonly from: number;
  /** Rows of a screen. */
  readonly page: number;
}

function useTreeKeys({ view, onView, selected, walk, from, page }: Keyed): void {
  const isOpen = selected !== null && selected.children > 0 && !selected.isFolded;
  const isShut = selected !== null && selected.children > 0 && selected.isFolded;
  const on = (rows: number) => walk({ kind: "row", row: from + rows, way: 1 });
  const back = (rows: number) => walk({ kind: "row", row: from - rows, way: -1 });
  useKeys({
    next: () => on(1),
    previous: () => back(1),
    pageOn: () => on(page),
    pageBack: () => back(page),
    first: () => walk(FIRST),
    last: () => walk(LAST),
    fold: () => {
      if (isOpen) onView(folded(view, selected));
      else if (selected !== null) walk({ kind: "parent", of: selected, row: from });
    },
    unfold: () => {
      if (isShut) onView(folded(view, selected));
      else on(1);
    },
  });
}

/** The scale of the bars: over the rows in sight, or over the session up to the moment. */
function useScale(
  strip: Strip,
  zoom: Zoom,
  spanAt: (row: number) => Span | null | undefined,
  first: number,
  last: number,
  then: Then | null,
) {
  const end = then?.seq ?? strip.length;
  let [from, to] = [1, end];
  if (zoom === "sight") {
    // The rows around the whole say nothing about what is in sight.
    const seen: Span[] = [];
    for (let row = first; row <= last; row += 1) {
      const span = spanAt(row);
      if (span != null && span.depth > 0) seen.push(span);
    }
    if (seen.length > 0) {
      from = Math.min(...seen.map((it) => it.firstSeq));
      to = Math.min(end, Math.max(...seen.map((it) => it.lastSeq)));
    }
  }
  return useMemo(() => timeScale(strip.times, from - 1, to), [strip.times, from, to]);
}
