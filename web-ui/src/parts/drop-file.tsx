import { useEffect, useRef, useState } from "react";
import { viewFile } from "../api/view-file.ts";
import { visible } from "../model/visible.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";

type Drop =
  | { readonly type: "none" }
  | { readonly type: "over" }
  | { readonly type: "sending"; readonly name: string }
  | { readonly type: "failed"; readonly name: string; readonly words: string };

/** An exported file that is dropped anywhere is opened, read only. */
export function DropFile() {
  const [drop, setDrop] = useState<Drop>({ type: "none" });
  const sending = useRef<AbortController>(undefined);
  useEffect(() => {
    const open = async (file: File) => {
      sending.current = new AbortController();
      setDrop({ type: "sending", name: file.name });
      try {
        // A whole load: what the page knows is of another store.
        window.location.assign(await viewFile(file, sending.current.signal));
      } catch (error) {
        if (sending.current.signal.aborted) return;
        const words = error instanceof Error ? error.message : String(error);
        setDrop({ type: "failed", name: file.name, words });
      }
    };
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files") !== true) return;
      event.preventDefault();
      setDrop({ type: "over" });
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null)
        setDrop((it) => (it.type === "over" ? { type: "none" } : it));
    };
    const dropped = (event: DragEvent) => {
      const file = event.dataTransfer?.files[0];
      if (file === undefined) return;
      event.preventDefault();
      void open(file);
    };
    window.addEventListener("dragover", over);
    window.addEventListener("dragleave", leave);
    window.addEventListener("drop", dropped);
    return () => {
      window.removeEventListener("dragover", over);
      window.removeEventListener("dragleave", leave);
      window.removeEventListener("drop", dropped);
    };
  }, []);
  const close = () => {
    sending.current?.abort();
    setDrop({ type: "none" });
  };
  switch (drop.type) {
    case "none":
      return null;
    case "over":
      return (
        <div className="drop" role="status">
          Drop an exported session to look at it, read only
        </div>
      );
    case "sending":
      return (
        <Dialog title="Opening a file" onClose={close}>
          <p role="status">Reading {visible(drop.name)} …</p>
          <Button onClick={close}>Cancel</Button>
        </Dialog>
      );
    case "failed":
      return (
        <Dialog title="The file was not opened" onClose={close}>
          <h2>The file was not opened</h2>
          <p>
            <code>{visible(drop.name)}</code>
          </p>
          <p role="alert">{visible(sentence(drop.words))}</p>
          <p className="quiet">
            Nothing of it was kept. What can be opened is a file that{" "}
            <code>stepwell export ID -o FILE.stepwell</code> wrote, see docs/export-format.md.
          </p>
          <Button onClick={close}>Close</Button>
        </Dialog>
      );
  }
}

/** The server's words as a sentence of their own; the title has said the rest. */
function sentence(words: string): string {
  const why = words.replace(/^the file was not opened: /, "");
  return `${why.charAt(0).toUpperCase()}${why.slice(1)}.`;
}
