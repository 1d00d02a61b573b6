import { type ReactNode, useEffect } from "react";

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

/** What the tab is called. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Stepwell`;
  }, [title]);
}
