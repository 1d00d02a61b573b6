import { useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { address } from "../../address.ts";
import { useSessions } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { shellWord } from "../../model/shell.ts";
import { SECTIONS, type Section } from "../../model/status.ts";
import { CliLine } from "../../parts/copy.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { isNarrow, type ListFilter, labelOf, readFilter, writeFilter } from "./filter.ts";
import { FilterBar } from "./filter-bar.tsx";
import { listItems, neighbour } from "./items.ts";
import { SessionList } from "./session-list.tsx";
import "./sessions.css";

function useSection(section: Section, filter: ListFilter) {
  const statuses = SECTIONS[section].filter((it) => filter.status === null || it === filter.status);
  const { text, agent } = filter;
  return useSessions({ statuses, text, agent, labels: labelOf(filter) });
}

/** What needs a person first, then what runs, then the rest. */
export function SessionsPage() {
  const [search, setSearch] = useSearchParams();
  const filter = readFilter(search);
  const sections = {
    needs: useSection("needs", filter),
    running: useSection("running", filter),
    rest: useSection("rest", filter),
  };
  const { needs, running, rest } = sections;
  const items = useMemo(() => {
    const part = (section: Section, query: typeof needs) => ({
      section,
      rows: query.isEnabled ? (query.data?.pages.flatMap((it) => it.rows) ?? []) : [],
      hasMore: query.isEnabled && query.hasNextPage,
    });
    return listItems([part("needs", needs), part("running", running), part("rest", rest)]);
  }, [needs, running, rest]);
  const [chosen, setChosen] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const [, go] = useLocation();
  useKeys({
    next: () => setChosen(neighbour(items, chosen, 1)),
    previous: () => setChosen(neighbour(items, chosen, -1)),
    first: () => setChosen(neighbour(items, null, 1)),
    last: () => setChosen(neighbour(items, null, -1)),
    open: () => chosen !== null && go(address.session(chosen)),
    find: () => field.current?.focus(),
  });
  const failed = [needs, running, rest].find((it) => it.isEnabled && it.error !== null);
  const isReading = [needs, running, rest].some((it) => it.isEnabled && it.isPending);
  const retry = () => [needs, running, rest].forEach((it) => void it.refetch());
  return (
    <Page title="Sessions">
      <FilterBar
        filter={filter}
        field={field}
        onChange={(next) => setSearch(writeFilter(next), { replace: true })}
      />
      {failed !== undefined && (
        <Failed
          doing="read the sessions"
          error={failed.error}
          onRetry={retry}
          isStale={items.length > 0}
        />
      )}
      {items.length > 0 && (
        <SessionList
          items={items}
          chosen={chosen}
          onMore={(section) => {
            const query = sections[section];
            if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
          }}
        />
      )}
      {items.length === 0 && isReading && failed === undefined && <Loading what="the sessions" />}
      {items.length === 0 && !isReading && failed === undefined && <NoSessions filter={filter} />}
      {items.length > 0 && (
        <footer className="page-foot">
          <CliLine line={cliLine(filter)} />
        </footer>
      )}
    </Page>
  );
}

function NoSessions({ filter }: { readonly filter: ListFilter }) {
  if (isNarrow(filter)) {
    return (
      <Empty title="No session fits.">
        <p>
          There may be others: <Link href={address.sessions()}>show all sessions</Link>.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No session yet." command={'stepwell submit "Say hello"'}>
      <p>
        A session is one task that an agent works on.{" "}
        <Link href={address.newSession()}>Start one</Link>, or on the command line:
      </p>
    </Empty>
  );
}

function cliLine(filter: ListFilter): string {
  const words = ["stepwell ls"];
  if (filter.status !== null) words.push("--status", filter.status);
  if (filter.agent !== "") words.push("--agent", shellWord(filter.agent));
  if (filter.text !== "") words.push("--text", shellWord(filter.text));
  if (labelOf(filter).length > 0) words.push("--label", shellWord(filter.label));
  return words.join(" ");
}
