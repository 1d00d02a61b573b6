import { type ReactNode, useEffect, useRef } from "react";
import { visible } from "../model/visible.ts";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly className?: string;
}

/** A modal dialog of the browser: it holds the focus, and Esc closes it. */
export function Dialog({ title, onClose, children, className = "" }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      // The browser gives the focus back only where it was the one to close it.
      const isNowhere = document.activeElement === document.body;
      if (isNowhere && before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a click beside it; the keyboard has Esc
    <dialog
      ref={dialog}
      className={`dialog ${className}`}
      aria-label={visible(title)}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className="dialog-inside">{children}</div>
    </dialog>
  );
}
