import { Page } from "../../parts/page.tsx";
import { Loading } from "../../parts/states.tsx";

export function WorkersPage() {
  return (
    <Page title="Workers">
      <Loading what="the page" />
    </Page>
  );
}
