import type { ButtonHTMLAttributes, ReactNode } from "react";

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly kind?: "plain" | "main" | "danger" | "quiet";
  readonly icon?: ReactNode;
  /** It does nothing for a moment, but keeps the focus: a disabled button would lose it. */
  readonly isOff?: boolean;
}

/** A button of the page. `main` at most once in a view. */
export function Button({
  kind = "plain",
  icon,
  isOff = false,
  children,
  className = "",
  onClick,
  ...rest
}: Props) {
  return (
    <button
      type="button"
      className={`button button-${kind} ${className}`}
      aria-disabled={isOff ? "true" : undefined}
      onClick={(event) => (isOff ? event.preventDefault() : onClick?.(event))}
      {...rest}
    >
      {icon}
      {children}
    </button>
  );
}
