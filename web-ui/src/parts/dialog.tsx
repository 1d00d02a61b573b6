import { type ReactNode, useEffect, useRef } from "react";
import { visible } from "../model/visible.ts";
import { useArmed } from "./use-armed.ts";
import { useFocusBack } from "./use-focus-back.ts";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly className?: string;
}

/** A modal dialog of the browser: it holds the focus, Esc closes it, and then the focus goes back. */
export function Dialog({ title, onClose, children, className = "" }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useFocusBack();
  // The second click of the double click that opened it is not meant for what is beside it.
  const beside = useArmed(dialog, title);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a click beside it; the keyboard has Esc
    <dialog
      ref={dialog}
      className={`dialog ${className}`}
      aria-label={visible(title)}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current && beside.mayAct()) onClose();
      }}
    >
      <div className="dialog-inside">{children}</div>
    </dialog>
  );
}
