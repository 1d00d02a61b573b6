import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useRef } from "react";
import type { Section } from "../../model/status.ts";
import { Button } from "../../parts/button.tsx";
import type { Label } from "./filter.ts";
import type { Item } from "./items.ts";
import { type Place, TOP } from "./places.ts";
import { SessionLine } from "./session-line.tsx";

export const ROW_HEIGHT = 32;
const HEIGHTS: Record<Item["type"], number> = { head: 36, row: ROW_HEIGHT, more: 32 };
/** Where a person is needed, the sentence why has a line of its own. */
const NEEDS_HEIGHT = 52;
const OVERSCAN = 12;
/** The heads of the columns cover so much of the list. */
const HEADS_HEIGHT = 28;

const TITLES: Record<Section, string> = {
  needs: "Needs a person",
  running: "Under way",
  rest: "Over",
};

interface Props {
  readonly items: readonly Item[];
  /** They are still those of the filter before. */
  readonly isStale: boolean;
  readonly chosen: string | null;
  /** Where it was left. */
  readonly place: Place;
  readonly scroller: RefObject<HTMLDivElement | null>;
  /** What a session asks of a person, in words. */
  readonly asks: (id: string) => string;
  readonly withLabel: (label: Label) => string;
  readonly onMore: (section: Section) => void;
  readonly onOpen: (id: string) => void;
  readonly onScrolled: (top: number) => void;
}

function height(item: Item | undefined): number {
  if (item === undefined) return HEIGHTS.row;
  return item.type === "row" && item.section === "needs" ? NEEDS_HEIGHT : HEIGHTS[item.type];
}

/** All sessions that were read so far; only the lines in sight are in the page. */
export function SessionList(props: Props) {
  const { items, isStale, chosen, place, scroller, asks, withLabel, onMore, onOpen } = props;
  const lines = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (at) => height(items[at]),
    getItemKey: (at) => {
      const item = items[at];
      return item?.type === "row" ? item.session.id : `${item?.type} ${item?.section}`;
    },
    overscan: OVERSCAN,
    initialOffset: place.top,
    scrollPaddingEnd: HEADS_HEIGHT,
  });
  const inSight = lines.getVirtualItems();
  const more = inSight.map((it) => items[it.index]).find((it) => it?.type === "more");
  useEffect(() => {
    if (more !== undefined) onMore(more.section);
  }, [more, onMore]);
  const shown = useRef(chosen);
  useEffect(() => {
    // Only a choice moves the list, not what moves in it.
    if (shown.current === chosen) return;
    shown.current = chosen;
    const at = items.findIndex((it) => it.type === "row" && it.session.id === chosen);
    if (at >= 0) lines.scrollToIndex(at);
  }, [chosen, items, lines]);
  // Sizes depend on the kind of line, which moves between places as the list changes.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the items that changed
  useEffect(() => lines.measure(), [items, lines]);
  const onScroll = usePlace(props);
  return (
    <div
      ref={scroller}
      className="sessions"
      role="grid"
      aria-label="Sessions"
      aria-busy={isStale}
      aria-rowcount={items.length}
      aria-activedescendant={chosen === null ? undefined : `session-${chosen}`}
      tabIndex={0}
      onScroll={onScroll}
    >
      <div className="session-line session-heads" role="row">
        <span role="columnheader">Status</span>
        <span role="columnheader">Session</span>
        <span role="columnheader">Agent</span>
        <span role="columnheader" className="number">
          Steps
        </span>
        <span role="columnheader" className="number" title="Tokens in and out">
          Tokens
        </span>
        <span
          role="columnheader"
          className="number"
          title="Share of the prompt tokens that came from the cache"
        >
          Cached
        </span>
        <span role="columnheader" className="number" title="Since the last event">
          Age
        </span>
      </div>
      <div className="sessions-all" role="rowgroup" style={{ height: lines.getTotalSize() }}>
        {inSight.map((line) => {
          const item = items[line.index];
          if (item === undefined) return null;
          const style = { height: line.size, transform: `translateY(${line.start}px)` };
          return (
            <div key={line.key} className="sessions-place" style={style} role="presentation">
              {item.type === "head" && (
                <h2 className="sessions-head">
                  {TITLES[item.section]}{" "}
                  <span className="quiet">
                    {item.count}
                    {item.hasMore && "+"}
                  </span>
                </h2>
              )}
              {item.type === "row" && (
                <SessionLine
                  session={item.session}
                  row={line.index}
                  isTall={item.section === "needs"}
                  isChosen={item.session.id === chosen}
                  asks={asks(item.session.id)}
                  withLabel={withLabel}
                  onOpen={onOpen}
                />
              )}
              {item.type === "more" && (
                <Button kind="quiet" onClick={() => onMore(item.section)}>
                  More …
                </Button>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** What a person does that leaves the place where the list was left. */
const MOVES = ["wheel", "pointerdown", "keydown", "touchmove"] as const;

/** Goes back to where the list was left, as soon as so many rows were read; then notes where it is. */
function usePlace({ items, place, scroller, onScrolled }: Props): () => void {
  const wanted = useRef(place.top);
  useEffect(() => {
    const it = scroller.current;
    if (it === null) return;
    const stay = () => {
      wanted.current = 0;
    };
    for (const move of MOVES) it.addEventListener(move, stay, { passive: true });
    return () => {
      for (const move of MOVES) it.removeEventListener(move, stay);
    };
  }, [scroller]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: more rows make it longer
  useEffect(() => {
    const it = scroller.current;
    if (it === null || wanted.current === 0) return;
    it.scrollTop = wanted.current;
    if (it.scrollHeight - it.clientHeight >= wanted.current) wanted.current = 0;
  }, [scroller, items]);
  // Who came back goes on there by keys.
  useEffect(() => {
    if (place !== TOP) scroller.current?.focus({ preventScroll: true });
  }, [scroller, place]);
  return () => {
    if (wanted.current === 0) onScrolled(scroller.current?.scrollTop ?? 0);
  };
}
