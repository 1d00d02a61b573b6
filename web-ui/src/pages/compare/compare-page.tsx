import { Page } from "../../parts/page.tsx";
import { Loading } from "../../parts/states.tsx";

interface Props {
  readonly a: string;
  readonly b: string;
}

/** Two sessions side by side. */
export function ComparePage({ a, b }: Props) {
  return (
    <Page title={`${a} and ${b}`}>
      <Loading what="both sessions" />
    </Page>
  );
}
