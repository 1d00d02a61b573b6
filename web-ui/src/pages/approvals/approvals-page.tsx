import { Page } from "../../parts/page.tsx";
import { Loading } from "../../parts/states.tsx";

export function ApprovalsPage() {
  return (
    <Page title="Approvals">
      <Loading what="the page" />
    </Page>
  );
}
