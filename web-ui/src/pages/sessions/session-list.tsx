import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import type { Section } from "../../model/status.ts";
import { Button } from "../../parts/button.tsx";
import type { Item } from "./items.ts";
import { SessionLine } from "./session-line.tsx";

const HEIGHTS: Record<Item["type"], number> = { head: 36, row: 32, more: 32 };
/** Where a person is needed, the sentence why has a line of its own. */
const NEEDS_HEIGHT = 52;
const OVERSCAN = 12;

const TITLES: Record<Section, string> = {
  needs: "Needs a person",
  running: "Under way",
  rest: "Over",
};

interface Props {
  readonly items: readonly Item[];
  readonly chosen: string | null;
  readonly onMore: (section: Section) => void;
}

function height(item: Item | undefined): number {
  if (item === undefined) return HEIGHTS.row;
  return item.type === "row" && item.section === "needs" ? NEEDS_HEIGHT : HEIGHTS[item.type];
}

/** All sessions that were read so far; only the lines in sight are in the page. */
export function SessionList({ items, chosen, onMore }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const lines = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (at) => height(items[at]),
    getItemKey: (at) => {
      const item = items[at];
      return item?.type === "row" ? item.session.id : `${item?.type} ${item?.section}`;
    },
    overscan: OVERSCAN,
  });
  const inSight = lines.getVirtualItems();
  const more = inSight.map((it) => items[it.index]).find((it) => it?.type === "more");
  useEffect(() => {
    if (more !== undefined) onMore(more.section);
  }, [more, onMore]);
  const chosenAt = items.findIndex((it) => it.type === "row" && it.session.id === chosen);
  useEffect(() => {
    if (chosenAt >= 0) lines.scrollToIndex(chosenAt);
  }, [chosenAt, lines]);
  // Sizes depend on the kind of line, which moves between places as the list changes.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the items that changed
  useEffect(() => lines.measure(), [items, lines]);
  return (
    <div
      ref={scroller}
      className="sessions"
      role="table"
      aria-label="Sessions"
      aria-rowcount={items.length}
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
                  isTall={item.section === "needs"}
                  isChosen={item.session.id === chosen}
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
