import { Check, Copy as CopyIcon, Terminal } from "lucide-react";
import { useEffect, useState } from "react";
import { atServer } from "../model/shell.ts";
import { visible } from "../model/visible.ts";
import { IS_FILE } from "../view-base.ts";
import { Button } from "./button.tsx";

/** How long the button says that it worked. */
const SAID_MS = 1_500;

type Said = "nothing" | "copied" | "failed";

/** Copies a text; says whether that worked. */
export function Copy({ text, label }: { readonly text: string; readonly label: string }) {
  const [said, setSaid] = useState<Said>("nothing");
  useEffect(() => {
    if (said === "nothing") return;
    const timer = window.setTimeout(() => setSaid("nothing"), SAID_MS);
    return () => window.clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid("copied");
    } catch {
      setSaid("failed");
    }
  };
  return (
    <Button
      kind="quiet"
      className="copy"
      title={label}
      aria-label={label}
      icon={
        said === "copied" ? <Check size={14} aria-hidden /> : <CopyIcon size={14} aria-hidden />
      }
      onClick={() => void copy()}
    >
      <span role="status">
        {said === "nothing" ? "" : said === "copied" ? "copied" : "select it by hand"}
      </span>
    </Button>
  );
}

/** The line of the command line that does the same, ready to copy. */
export function CliLine({ line }: { readonly line: string }) {
  const whole = IS_FILE ? line : atServer(line, window.location.origin);
  return (
    <span className="cli-line">
      <Terminal size={14} aria-label="on the command line" />
      <code>{visible(whole)}</code>
      <Copy text={whole} label="Copy the command" />
    </span>
  );
}
