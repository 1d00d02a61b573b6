import { type ReactNode, useEffect, useRef } from "react";
import { visible } from "../model/visible.ts";
import { useFocusArrived } from "./use-focus-back.ts";

interface Props {
  readonly title: string;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** A page below the bar: its title, what can be done, its content. */
export function Page({ title, actions, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useTitle(title);
  useFocusArrived(heading);
  return (
    <main className="page" tabIndex={-1}>
      <header className="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <div className="page-actions">{actions}</div>
      </header>
      {children}
    </main>
  );
}

/** What the tab is called, of a title that anybody may have written. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${visible(title)} · Stepwell`;
  }, [title]);
}
