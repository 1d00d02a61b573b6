import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { MESSAGES_PAGE, useMessages } from "../../api/history-queries.ts";
import type { Message } from "../../model/session/messages.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { MessageBox } from "./message-box.tsx";
import { useJump } from "./use-jump.ts";

const HEIGHT_GUESS = 88;
const OVERSCAN = 2;
/** This near to the end counts as at the end, in pixels. */
const END_NEAR = 48;

interface Props {
  readonly sessionId: string;
  /** Messages at the moment that is shown; `null` while that is not known. */
  readonly total: number | null;
  /** The last of them: what is read first. */
  readonly tail: readonly Message[];
  /** A moment that has them all. */
  readonly at: number;
  /** Changes with the moment that is shown. */
  readonly moment: string;
  readonly isLive: boolean;
  /** The message to bring into sight. */
  readonly target: number | null;
  readonly isSelected: (message: Message) => boolean;
  readonly onSelect: (message: Message) => void;
  /** What is going on at that moment and is no message yet. */
  readonly below: ReactNode;
}

/** The conversation exactly as the model saw it, the newest first to be read. */
export const Conversation = memo(function Conversation(props: Props) {
  const { sessionId, total, at, moment, isLive, target } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [pages, setPages] = useState<readonly number[]>([]);
  const { messages, error, retry } = useMessages(sessionId, pages, total ?? 0, at);
  const tailFrom = props.tail[0]?.number ?? Number.POSITIVE_INFINITY;
  const messageAt = (number: number) => props.tail[number - tailFrom] ?? messages.get(number);
  const count = total ?? 0;
  const lines = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT_GUESS,
    overscan: OVERSCAN,
    anchorTo: "start",
    // The end is what is read first.
    initialOffset: () => count * HEIGHT_GUESS,
  });
  // Another moment begins at its end.
  useJump(lines, moment, () => lines.getTotalSize() - (lines.scrollRect?.height ?? 0));
  const inSight = lines.getVirtualItems();
  const [first, last] = [inSight[0]?.index ?? -1, inSight.at(-1)?.index ?? -1];
  useEffect(() => {
    const end = Math.min(last, tailFrom - 1);
    if (first >= 0) setPages((before) => pagesOf(first, end, before));
  }, [first, last, tailFrom]);
  const follow = useFollow(scroller, [count, lines.getTotalSize(), moment, props.below], isLive);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another moment begins at its end
  useLayoutEffect(follow.toEnd, [moment, total === null]);
  useEffect(() => {
    if (target === null) return;
    follow.stop();
    lines.scrollToIndex(target, { align: "center" });
  }, [target, lines, follow.stop]);
  if (total === null) return <Loading what="the conversation" rows={8} />;
  return (
    <div
      ref={scroller}
      className="conversation"
      role="log"
      aria-label="Conversation"
      aria-live="off"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={follow.look}
    >
      {error !== null && <Failed doing="read the conversation" error={error} onRetry={retry} />}
      {count === 0 && <Empty title="The model was not asked yet." />}
      <div className="conversation-all" style={{ height: lines.getTotalSize() }}>
        {inSight.map(({ index, start }) => {
          const message = messageAt(index);
          return (
            <div
              key={index}
              ref={lines.measureElement}
              data-index={index}
              className="conversation-place"
              style={{ top: start }}
            >
              {message === undefined ? (
                <div className="message is-unread" style={{ height: HEIGHT_GUESS }} />
              ) : (
                <MessageBox
                  message={message}
                  isSelected={props.isSelected(message)}
                  onSelect={props.onSelect}
                />
              )}
            </div>
          );
        })}
      </div>
      {props.below}
    </div>
  );
});

/** The pages of these messages; none when the last is before the first. */
function pagesOf(first: number, last: number, before: readonly number[]): readonly number[] {
  if (last < first) return before.length === 0 ? before : [];
  const [from, to] = [Math.floor(first / MESSAGES_PAGE), Math.floor(last / MESSAGES_PAGE)];
  const pages = Array.from({ length: to - from + 1 }, (_, at) => from + at);
  return pages.join() === before.join() ? before : pages;
}

/** Keeps the end in sight while it grows, until the person scrolls away from it. */
function useFollow(
  scroller: React.RefObject<HTMLDivElement | null>,
  grows: readonly unknown[],
  isLive: boolean,
) {
  const isAtEnd = useRef(true);
  const actions = useRef({
    look: () => {
      const it = scroller.current;
      if (it !== null)
        isAtEnd.current = it.scrollHeight - it.scrollTop - it.clientHeight < END_NEAR;
    },
    toEnd: () => {
      isAtEnd.current = true;
      const it = scroller.current;
      if (it !== null) it.scrollTop = it.scrollHeight;
    },
    stop: () => {
      isAtEnd.current = false;
    },
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what grows is the caller's to know
  useLayoutEffect(() => {
    const it = scroller.current;
    if (it !== null && isAtEnd.current) it.scrollTop = it.scrollHeight;
  }, [...grows, isLive]);
  return actions.current;
}
