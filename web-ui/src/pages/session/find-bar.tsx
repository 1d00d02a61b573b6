import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronUp, Search, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useFind } from "../../api/find.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { eventWords, familyOfEvent } from "../../model/session/family.ts";
import {
  type Found,
  findingWords,
  hasMore,
  neighbour,
  placeOf,
} from "../../model/session/found.ts";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { Failed } from "../../parts/states.tsx";
import { useFocusBack } from "../../parts/use-focus-back.ts";
import { useRemembered } from "../../parts/use-remembered.ts";

const ROW_HEIGHT = 24;
const OVERSCAN = 6;
const TEXT_CHARS_MAX = 200;

interface Props {
  readonly sessionId: string;
  /** The event after which the first "next" looks. */
  readonly from: number;
  readonly onSelect: (seq: number) => void;
  readonly onClose: () => void;
}

/** Finds a text in everything that happened in the session. */
export function FindBar({ sessionId, from, onSelect, onClose }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useRemembered(`find ${sessionId}`, "");
  const [at, setAt] = useState<number | null>(null);
  const search = useFind(sessionId, text.trim());
  const place = placeOf(search.found, at);
  /** Asked for before anything was found. */
  const wish = useRef<1 | -1 | null>(null);
  const go = (seq: number) => {
    setAt(seq);
    onSelect(seq);
  };
  const move = (by: 1 | -1) => {
    const to = neighbour(search, at ?? from, by);
    const isFound = typeof to === "number";
    wish.current = isFound ? null : by;
    if (isFound) go(to);
    else if (to === "further" && hasMore(search)) search.goOn();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was asked for is done once
  useEffect(() => {
    if (wish.current !== null) move(wish.current);
  }, [search.found, search.isDone]);
  useKeys({
    find: () => field.current?.select(),
    findNext: () => move(1),
    findPrevious: () => move(-1),
    close: onClose,
  });
  useFocusBack();
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const pressed = (event: React.KeyboardEvent) => {
    if (event.key === "Escape" && text.trim() === "") onClose();
    else if (event.key === "ArrowDown" || (event.key === "Enter" && !event.shiftKey)) move(1);
    else if (event.key === "ArrowUp" || event.key === "Enter") move(-1);
    else return;
    event.preventDefault();
  };
  const isEmpty = search.found.length === 0;
  return (
    <search className="find" aria-label="Find in this session">
      <div className="find-line">
        <Search size={14} aria-hidden />
        <input
          ref={field}
          value={text}
          maxLength={TEXT_CHARS_MAX}
          placeholder="Text in any event of this session"
          aria-label="Text in any event of this session"
          aria-controls="find-list"
          onChange={(event) => {
            setText(event.target.value);
            setAt(null);
            wish.current = null;
          }}
          onKeyDown={pressed}
        />
        <span className="find-count" role="status">
          {text.trim() !== "" && findingWords(search, place)}
        </span>
        {hasMore(search) && (
          <Button kind="quiet" onClick={search.goOn}>
            Look further
          </Button>
        )}
        <Button
          kind="quiet"
          icon={<ChevronUp size={14} aria-hidden />}
          aria-label="previous"
          title="Previous (N)"
          disabled={isEmpty}
          onClick={() => move(-1)}
        />
        <Button
          kind="quiet"
          icon={<ChevronDown size={14} aria-hidden />}
          aria-label="next"
          title="Next (n)"
          disabled={isEmpty}
          onClick={() => move(1)}
        />
        <Button
          kind="quiet"
          icon={<X size={14} aria-hidden />}
          aria-label="close"
          title="Close (Esc outside the field)"
          onClick={onClose}
        />
      </div>
      {search.error !== null && <Failed doing="look for it" error={search.error} />}
      <FoundList found={search.found} place={place} onSelect={go} />
    </search>
  );
}

interface ListProps {
  readonly found: readonly Found[];
  readonly place: number;
  readonly onSelect: (seq: number) => void;
}

function FoundList({ found, place, onSelect }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const lines = useVirtualizer({
    count: found.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
  });
  useEffect(() => {
    if (place >= 0) lines.scrollToIndex(place);
  }, [place, lines]);
  return (
    <div
      ref={scroller}
      id="find-list"
      className="find-list"
      role="listbox"
      aria-label="Events that contain it"
      hidden={found.length === 0}
    >
      <div className="find-all" style={{ height: lines.getTotalSize() }}>
        {lines.getVirtualItems().map(({ index, start }) => {
          const it = found[index];
          if (it === undefined) return null;
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
            <div
              key={it.seq}
              className={`find-row kind-${familyOfEvent(it.type)}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === place}
              style={{ transform: `translateY(${start}px)` }}
              onClick={() => onSelect(it.seq)}
            >
              <span className="find-seq">{it.seq}</span>
              <span className="find-type">{eventWords(it.type)}</span>
              <code className="find-text">
                {visible(it.before)}
                <mark>{visible(it.match)}</mark>
                {visible(it.after)}
              </code>
            </div>
          );
        })}
      </div>
    </div>
  );
}
