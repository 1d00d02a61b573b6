import type { Moment } from "../../address.ts";
import { useSession } from "../../api/queries.ts";
import { Page } from "../../parts/page.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { StatusMark } from "../../parts/status-mark.tsx";

/** One session at one moment. */
export function SessionPage({ moment }: { readonly moment: Moment }) {
  const { data, error, refetch } = useSession(moment.sessionId);
  return (
    <Page title={data?.session.title ?? moment.sessionId}>
      {error !== null && <Failed doing="read the session" error={error} onRetry={refetch} />}
      {data === undefined ? (
        <Loading what="the session" />
      ) : (
        <StatusMark status={data.session.status} />
      )}
    </Page>
  );
}
