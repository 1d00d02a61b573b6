import { ChevronsDownUp, ChevronsUpDown, ZoomIn, ZoomOut } from "lucide-react";
import { memo } from "react";
import { STEPS_ONLY, type TreeView, WHOLE } from "../../model/session/tree-view.ts";
import { Button } from "../../parts/button.tsx";
import type { Zoom } from "./tree.tsx";

interface Props {
  readonly view: TreeView;
  readonly onView: (view: TreeView) => void;
  readonly zoom: Zoom;
  readonly onZoom: (zoom: Zoom) => void;
}

/** How much of the tree is there, and what its bars are drawn over. */
export const TreeTools = memo(function TreeTools({ view, onView, zoom, onZoom }: Props) {
  const isStepsOnly = view.depthMax === 1;
  return (
    <div className="tree-tools">
      <Button
        kind="quiet"
        icon={
          isStepsOnly ? (
            <ChevronsUpDown size={14} aria-hidden />
          ) : (
            <ChevronsDownUp size={14} aria-hidden />
          )
        }
        onClick={() => onView(isStepsOnly ? WHOLE : STEPS_ONLY)}
      >
        {isStepsOnly ? "Unfold all" : "Steps only"}
      </Button>
      <Button
        kind="quiet"
        icon={
          zoom === "sight" ? <ZoomOut size={14} aria-hidden /> : <ZoomIn size={14} aria-hidden />
        }
        title="What the bars of time are drawn over"
        onClick={() => onZoom(zoom === "sight" ? "session" : "sight")}
      >
        {zoom === "sight" ? "Time of all" : "Time in sight"}
      </Button>
    </div>
  );
});
