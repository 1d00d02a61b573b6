import { Clock, CornerDownRight, Diamond, Hand, RotateCw, Square } from "lucide-react";
import type { ComponentType } from "react";

interface IconProps {
  readonly size: number;
}

/** A shape for each kind of span, so that colour is never all there is. */
const SHAPES: Record<string, ComponentType<IconProps>> = {
  session: Square,
  model_call: Diamond,
  tool_call: CornerDownRight,
  attempt: RotateCw,
  approval: Hand,
  wait: Clock,
};

/** The shape of a kind; a step has none, what is in it has. */
export function KindShape({ kind }: { readonly kind: string }) {
  const Shape = SHAPES[kind];
  if (Shape === undefined) return null;
  return (
    <span className="kind-shape" aria-hidden="true">
      <Shape size={12} />
    </span>
  );
}
