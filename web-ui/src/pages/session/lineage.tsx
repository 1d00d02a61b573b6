import { Link } from "wouter";
import { address } from "../../address.ts";
import { useLineage } from "../../api/history-queries.ts";
import type { SessionRow } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { shortId } from "../../model/words.ts";
import { Failed } from "../../parts/states.tsx";
import { StatusMark } from "../../parts/status-mark.tsx";

/** Where the session comes from and what was forked from it, as a tree. */
export function Lineage({ session }: { readonly session: SessionRow }) {
  const { data, error, refetch } = useLineage(session);
  if (error !== null) return <Failed doing="read the forks" error={error} onRetry={refetch} />;
  if (data === undefined) return null;
  const { ancestors, forks } = data;
  const own = forks.get(session.id) ?? [];
  if (session.parent === null && own.length === 0) return null;
  const [top] = ancestors;
  return (
    <section className="details-part lineage">
      <h3>lineage</h3>
      {session.parent !== null && top === undefined && (
        <p className="quiet">Its parent {shortId(session.parent.id)} was deleted.</p>
      )}
      <ul>
        <Branch rows={top === undefined ? [session] : [top]} all={data} session={session} />
      </ul>
    </section>
  );
}

interface BranchProps {
  readonly rows: readonly SessionRow[];
  readonly all: {
    readonly ancestors: readonly SessionRow[];
    readonly forks: ReadonlyMap<string, readonly SessionRow[]>;
  };
  readonly session: SessionRow;
}

function Branch({ rows, all, session }: BranchProps) {
  return rows.map((row) => (
    <li key={row.id}>
      <Line row={row} session={session} />
      <ul>
        <Branch rows={below(row, all, session)} all={all} session={session} />
      </ul>
    </li>
  ));
}

/** What stands below a session: its forks as far as they were read, else the way to the session. */
function below(row: SessionRow, all: BranchProps["all"], session: SessionRow): SessionRow[] {
  const known = all.forks.get(row.id);
  const way = [...all.ancestors, session].filter((it) => it.parent?.id === row.id);
  if (known === undefined) return way;
  return [...known, ...way.filter((it) => !known.some((one) => one.id === it.id))];
}

function Line({ row, session }: { readonly row: SessionRow; readonly session: SessionRow }) {
  const isThis = row.id === session.id;
  return (
    <span className={isThis ? "lineage-line is-here" : "lineage-line"}>
      <StatusMark status={row.status} />
      {isThis ? (
        <strong>this session</strong>
      ) : (
        <Link href={address.session(row.id)}>{shortId(row.id)}</Link>
      )}
      <span className="lineage-title">{visible(row.title)}</span>
      {row.parent !== null && <span className="quiet">from event {row.parent.seq}</span>}
      {!isThis && <Link href={address.compare(session.id, row.id)}>compare</Link>}
    </span>
  );
}
