import { type ReactNode, useEffect, useRef } from "react";

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
    dialog.current?.showModal();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a click beside it; the keyboard has Esc
    <dialog
      ref={dialog}
      className={`dialog ${className}`}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className="dialog-inside">{children}</div>
    </dialog>
  );
}
