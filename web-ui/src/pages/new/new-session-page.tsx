import { Page } from "../../parts/page.tsx";
import { Loading } from "../../parts/states.tsx";

export function NewSessionPage() {
  return (
    <Page title="NewSession">
      <Loading what="the page" />
    </Page>
  );
}
