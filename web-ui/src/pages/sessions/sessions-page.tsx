import { Page } from "../../parts/page.tsx";
import { Loading } from "../../parts/states.tsx";

export function SessionsPage() {
  return (
    <Page title="Sessions">
      <Loading what="the page" />
    </Page>
  );
}
