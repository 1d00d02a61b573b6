import { Link } from "wouter";
import { address } from "../../address.ts";
import { useSessions } from "../../api/queries.ts";
import { STATUSES } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";

const ANY = { statuses: STATUSES, text: "", agent: "", labels: [] } as const;

/** Where a file is shown, every address but its session's: what is here, and what is not. */
export function FilePage() {
  const { data, error, refetch } = useSessions(ANY);
  const session = data?.pages[0]?.rows[0];
  return (
    <Page title="An exported file">
      <Empty title="A file is shown here, and not a server.">
        <p>It holds one session; there are no others, and no approvals, agents or workers.</p>
        {session !== undefined && (
          <p>
            <Link href={address.session(session.id)}>Look at “{visible(session.title)}”</Link>
          </p>
        )}
      </Empty>
      {session === undefined && error === null && <Loading what="the file" rows={1} />}
      {error !== null && <Failed doing="read the file" error={error} onRetry={refetch} />}
    </Page>
  );
}
