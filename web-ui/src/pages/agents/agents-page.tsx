import { Page } from "../../parts/page.tsx";
import { Loading } from "../../parts/states.tsx";

export function AgentsPage() {
  return (
    <Page title="Agents">
      <Loading what="the page" />
    </Page>
  );
}
