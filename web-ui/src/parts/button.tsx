import type { ButtonHTMLAttributes, ReactNode } from "react";

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly kind?: "plain" | "main" | "danger" | "quiet";
  readonly icon?: ReactNode;
}

/** A button of the page. `main` at most once in a view. */
export function Button({ kind = "plain", icon, children, className = "", ...rest }: Props) {
  return (
    <button type="button" className={`button button-${kind} ${className}`} {...rest}>
      {icon}
      {children}
    </button>
  );
}
