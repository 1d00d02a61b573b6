import { useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { address } from "../../address.ts";
import { useApprovals, useSessions } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { questionName } from "../../model/action.ts";
import { FIRST_TASK, shellWord } from "../../model/shell.ts";
import { SECTIONS, type Section } from "../../model/status.ts";
import type { Status } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { CliLine } from "../../parts/copy.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import {
  isNarrow,
  type ListFilter,
  readFilter,
  withLabel,
  writeFilter,
  writeLabel,
} from "./filter.ts";
import { FilterBar } from "./filter-bar.tsx";
import { type Item, listItems, neighbour } from "./items.ts";
import { entryNow, places } from "./places.ts";
import { ROW_HEIGHT, SessionList } from "./session-list.tsx";
import "./sessions.css";

function useSection(section: Section, filter: ListFilter, isFilter: boolean) {
  const fits = (it: Status) => filter.status === null || it === filter.status;
  const statuses = isFilter ? SECTIONS[section].filter(fits) : [];
  const { text, agent, labels } = filter;
  return useSessions({ statuses, text, agent, labels });
}

/** What needs a person first, then what runs, then the rest. */
export function SessionsPage() {
  const [search, setSearch] = useSearchParams();
  const { filter, problems } = readFilter(search);
  const written = search.toString();
  // Another address is another entry of the history, with a place of its own.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the entry of this address
  const entry = useMemo(entryNow, [written]);
  const isFilter = problems.length === 0;
  const sections = {
    needs: useSection("needs", filter, isFilter),
    running: useSection("running", filter, isFilter),
    rest: useSection("rest", filter, isFilter),
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
  const field = useRef<HTMLInputElement>(null);
  const before = useRef<Element | null>(null);
  useKeys({
    find: () => {
      before.current = document.activeElement;
      field.current?.focus();
    },
  });
  const leaveField = () => {
    if (before.current instanceof HTMLElement) before.current.focus({ preventScroll: true });
    else field.current?.blur();
  };
  const failed = [needs, running, rest].find((it) => it.isEnabled && it.error !== null);
  const isStale = [needs, running, rest].some((it) => it.isEnabled && it.isPlaceholderData);
  const isReading = [needs, running, rest].some((it) => it.isEnabled && it.isPending);
  const retry = () => [needs, running, rest].forEach((it) => void it.refetch());
  return (
    <Page title="Sessions">
      <FilterBar
        filter={filter}
        field={field}
        onLeave={leaveField}
        onChange={(next) => setSearch(writeFilter(next), { replace: true })}
      />
      {!isFilter && <NoFilter problems={problems} />}
      {failed !== undefined && (
        <Failed
          doing="read the sessions"
          error={failed.error}
          onRetry={retry}
          isStale={items.length > 0}
        />
      )}
      {items.length > 0 && (
        <Listed
          key={entry}
          entry={entry}
          items={items}
          isStale={isStale}
          filter={filter}
          onMore={(section) => {
            const query = sections[section];
            if (query.hasNextPage && !query.isFetching) void query.fetchNextPage();
          }}
        />
      )}
      {items.length === 0 && isReading && failed === undefined && <Loading what="the sessions" />}
      {isFilter && items.length === 0 && !isReading && failed === undefined && (
        <NoSessions filter={filter} />
      )}
      {items.length > 0 && (
        <footer className="page-foot">
          <CliLine line={cliLine(filter)} />
        </footer>
      )}
    </Page>
  );
}

interface ListedProps {
  readonly entry: string;
  readonly items: readonly Item[];
  /** They are still those of the filter before. */
  readonly isStale: boolean;
  readonly filter: ListFilter;
  readonly onMore: (section: Section) => void;
}

/** The list as it was left in this entry of the history, and the keys that move in it. */
function Listed({ entry, items, isStale, filter, onMore }: ListedProps) {
  const [place] = useState(() => places.of(entry));
  const [chosen, setChosen] = useState(place.chosen);
  const scroller = useRef<HTMLDivElement>(null);
  const [, go] = useLocation();
  const asks = useAsks();
  const choose = (id: string | null) => {
    setChosen(id);
    places.keep(entry, { chosen: id });
  };
  const move = (from: string | null, by: number) => {
    choose(neighbour(items, from, by));
    // The chosen row is said to who hears the page.
    scroller.current?.focus({ preventScroll: true });
  };
  const page = () =>
    Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
  useKeys({
    next: () => move(chosen, 1),
    previous: () => move(chosen, -1),
    pageOn: () => move(chosen, page()),
    pageBack: () => move(chosen, -page()),
    first: () => move(null, 1),
    last: () => move(null, -1),
    open: () => chosen !== null && go(address.session(chosen)),
  });
  return (
    <SessionList
      items={items}
      isStale={isStale}
      chosen={chosen}
      place={place}
      scroller={scroller}
      asks={asks}
      withLabel={(label) => address.sessions(writeFilter(withLabel(filter, label)).toString())}
      onMore={onMore}
      onOpen={choose}
      onScrolled={(top) => places.keep(entry, { top })}
    />
  );
}

/** What each session asks of a person, the first of its questions. */
function useAsks(): (id: string) => string {
  const open = useApprovals(["open"]).data;
  const asked = useMemo(() => {
    const rows = open?.pages.flatMap((it) => it.rows) ?? [];
    return new Map(rows.map((it) => [it.sessionId, it] as const));
  }, [open]);
  return (id) => {
    const it = asked.get(id);
    return it === undefined ? "" : questionName(it);
  };
}

/** The address says something that is no filter: what, and that nothing is shown for it. */
function NoFilter({ problems }: { readonly problems: readonly string[] }) {
  return (
    <div role="alert">
      <Empty title="The address asks for what is no filter.">
        <ul>
          {problems.map((it) => (
            <li key={it}>{visible(it)}</li>
          ))}
        </ul>
        <p>
          So nothing is shown: <Link href={address.sessions()}>show all sessions</Link>.
        </p>
      </Empty>
    </div>
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
    <Empty title="No session yet." command={FIRST_TASK}>
      <p>
        A session is one task that an agent works on.{" "}
        <Link href={address.newSession()}>Start one</Link>, or on the command line, here with an
        agent that only answers (others are files, see docs/agents.md):
      </p>
    </Empty>
  );
}

function cliLine(filter: ListFilter): string {
  const words = ["stepwell ls"];
  if (filter.status !== null) words.push("--status", filter.status);
  if (filter.agent !== "") words.push("--agent", shellWord(filter.agent));
  if (filter.text !== "") words.push("--text", shellWord(filter.text));
  for (const label of filter.labels) words.push("--label", shellWord(writeLabel(label)));
  return words.join(" ");
}
