/**
 * A shape for each kind of span, so that colour is never all there is: lines in a square of 24. One
 * element for all of them, since a tree changes many at once.
 */
const SHAPES: Record<string, string> = {
  session: "M4 4h16v16H4z",
  model_call: "M12 2l10 10-10 10L2 12z",
  tool_call: "M4 4v10h16M14 8l6 6-6 6",
  attempt: "M19.5 15A8 8 0 1 1 19.5 9M20 3v6h-6",
  approval: "M8 2.5h8L21.5 8v8L16 21.5H8L2.5 16V8z",
  wait: "M12 2.5a9.5 9.5 0 1 1 0 19 9.5 9.5 0 1 1 0-19zM12 7v5l4 3",
};

/** The shape of a kind; a step has none, what is in it has. */
export function KindShape({ kind }: { readonly kind: string }) {
  const lines = SHAPES[kind];
  if (lines === undefined) return null;
  return (
    <svg className="kind-shape" viewBox="0 0 24 24" aria-hidden="true">
      <path d={lines} />
    </svg>
  );
}
