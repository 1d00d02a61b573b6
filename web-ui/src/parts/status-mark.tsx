import { meaning, type Tone } from "../model/status.ts";
import type { Status } from "../model/types.ts";

/** A shape for each tone, so that colour is never all there is. */
const SHAPES: Record<Tone, string> = {
  running: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zm0 2a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  needs: "M8 1l7 7-7 7-7-7z",
  done: "M6.4 10.6 3.2 7.4 2 8.6l4.4 4.4L14 5.4l-1.2-1.2z",
  failed: "M4 2.6 8 6.6l4-4L13.4 4l-4 4 4 4L12 13.4l-4-4-4 4L2.6 12l4-4-4-4z",
  stopped: "M3 3h10v10H3z",
};

/** Shape and colour of a tone; words must stand beside it. */
export function ToneMark({ tone }: { readonly tone: Tone }) {
  return (
    <svg
      className={`tone tone-${tone}`}
      viewBox="0 0 16 16"
      width="12"
      height="12"
      aria-hidden="true"
    >
      <path d={SHAPES[tone]} fill="currentColor" />
    </svg>
  );
}

/** Where a session is: shape, colour and words. */
export function StatusMark({ status }: { readonly status: Status }) {
  const { tone, words } = meaning(status);
  return (
    <span className={`status tone-${tone}`}>
      <ToneMark tone={tone} />
      {words}
    </span>
  );
}
