import { RotateCw, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { failure } from "../api/failure.ts";
import { Button } from "./button.tsx";
import { CliLine } from "./copy.tsx";

/** Shown at once while something is read for the first time. */
export function Loading({ rows = 6, what }: { readonly rows?: number; readonly what: string }) {
  return (
    <div className="loading" role="status" aria-label={`reading ${what}`}>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike
        <div key={row} className="loading-row" />
      ))}
    </div>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children?: ReactNode;
  /** The command that brings something here. */
  readonly command?: string;
}

/** Nothing is there, and what brings something. */
export function Empty({ title, children, command }: EmptyProps) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
      {command !== undefined && <CliLine line={command} />}
    </div>
  );
}

interface FailedProps {
  /** What was tried: `read the sessions`. */
  readonly doing: string;
  readonly error: unknown;
  readonly onRetry?: (() => void) | undefined;
  /** What is on the screen is from before. */
  readonly isStale?: boolean;
  /** What is on the screen instead. */
  readonly rest?: string;
}

/** A request failed: what, why, and once more. */
export function Failed({ doing, error, onRetry, isStale = false, rest = "" }: FailedProps) {
  const { words, code, kind } = failure(error);
  return (
    <div className="failed" role="alert">
      <TriangleAlert size={16} aria-hidden />
      <div className="failed-words">
        <p>
          Could not {doing}: {words}
        </p>
        <p className="quiet">
          {isStale && "What you see is from before. "}
          {rest !== "" && `${rest} `}
          {code !== "" && `Code ${code}, explained in docs/api.md.`}
          {kind === "unreachable" && " It is tried again by itself."}
        </p>
      </div>
      {onRetry !== undefined && (
        <Button icon={<RotateCw size={14} aria-hidden />} onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
