import { type ReactNode, useEffect } from "react";
import { visible } from "../model/visible.ts";

interface Props {
  readonly title: string;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** A page below the bar: its title, what can be done, its content. */
export function Page({ title, actions, children }: Props) {
  useTitle(title);
  return (
    <main className="page">
      <header className="page-head">
        <h1>{title}</h1>
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
