import { ArrowLeft } from "lucide-react";
import { useEffect, useRef } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { address } from "../../address.ts";
import { ANSWERED, useApprovals, useAsking } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { questionName } from "../../model/action.ts";
import type { Followed } from "../../model/asked.ts";
import type { Approval } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { shortId } from "../../model/words.ts";
import { outcome } from "../../parts/approval/answers.ts";
import { ApprovalCard } from "../../parts/approval/approval-card.tsx";
import { useFollowed } from "../../parts/approval/use-followed.ts";
import { Button } from "../../parts/button.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { ToneMark } from "../../parts/status-mark.tsx";
import { Age, Left } from "../../parts/time.tsx";
import { byUrgency } from "./order.ts";
import { AskedSession, QuestionLine } from "./questions.tsx";
import "./approvals.css";

/** The inbox: what waits for a person, and what became of what did. */
export function ApprovalsPage() {
  const open = useApprovals(["open"]);
  const over = useApprovals(ANSWERED);
  const asking = useAsking();
  const [search] = useSearchParams();
  const [, go] = useLocation();
  const chosen = search.get("id");
  const openRows = byUrgency(open.data?.pages.flatMap((it) => it.rows) ?? []);
  const isOpen = new Set(openRows.map((it) => it.id));
  const overRows = (over.data?.pages.flatMap((it) => it.rows) ?? []).filter(
    (it) => !isOpen.has(it.id),
  );
  const pages = [...(open.data?.pages ?? []), ...(over.data?.pages ?? [])];
  const titles = new Map(pages.flatMap((it) => Object.entries(it.titles)));
  const waiting = [...openRows, ...asking.rows].map((it) => it.id);
  const ids = [...waiting, ...overRows.map((it) => it.id)];
  const followed = useFollowed(chosen, openRows, over.data?.pages.flatMap((it) => it.rows) ?? []);
  // The id of an approval has its number behind that of the session.
  const isQuestion = chosen !== null && !chosen.includes(".");
  const move = (by: number) => {
    const at = ids.indexOf(chosen ?? "");
    const next = ids[at === -1 ? 0 : Math.max(0, Math.min(ids.length - 1, at + by))];
    if (next !== undefined) goTo(next);
  };
  const list = useRef<HTMLDivElement>(null);
  const isByKey = useRef(false);
  const goTo = (id: string) => {
    isByKey.current = true;
    go(address.approval(id), { replace: true });
  };
  // Where the keys go is seen, and said to who hears the page.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another one is chosen
  useEffect(() => {
    if (isByKey.current) list.current?.querySelector<HTMLElement>("[aria-current]")?.focus();
    isByKey.current = false;
  }, [chosen]);
  const detail = useRef<HTMLElement>(null);
  // The heading, and never a button: what is asked is read first.
  const review = () => detail.current?.querySelector<HTMLElement>(".approval-question")?.focus();
  useKeys({
    next: () => move(1),
    previous: () => move(-1),
    open: review,
    review: () => {
      const [next] = waiting;
      if (next === undefined || waiting.includes(chosen ?? "")) review();
      else goTo(next);
    },
  });
  const failed = open.error ?? over.error ?? asking.error;
  const isRead = open.isSuccess && over.isSuccess && asking.isSuccess;
  const isShown = ids.length > 0 || followed !== null || isQuestion;
  return (
    <Page title="Approvals">
      {failed !== null && (
        <Failed
          doing="read the approvals"
          error={failed}
          isStale={ids.length > 0}
          onRetry={() => {
            void open.refetch();
            void over.refetch();
            void asking.refetch();
          }}
        />
      )}
      {open.isPending && failed === null && <Loading what="the approvals" />}
      {isRead && !isShown && (
        <Empty title="Nothing waits for you." command="stepwell approvals">
          <p>
            When a rule of an agent says so, a session asks here before it runs a tool, with the
            exact action. The rules stand in the agent's file, see docs/agents.md. What a model asks
            with ask_user comes here, too.
          </p>
        </Empty>
      )}
      {isShown && (
        <div className={chosen === null ? "inbox" : "inbox inbox-chosen"}>
          {/* biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: of the links in it */}
          <div
            ref={list}
            className="inbox-list"
            onClick={(event) => {
              // Opened once more, what is asked is read.
              if (event.target instanceof Element && event.target.closest("[aria-current]"))
                review();
            }}
          >
            <h2 className="inbox-head">
              {waiting.length === 0 ? "Nothing waits for you" : "Waits for you"}{" "}
              {openRows.length > 1 && (
                <span className="quiet">
                  next to expire first{open.hasNextPage && ` of the newest ${openRows.length}`}
                </span>
              )}
            </h2>
            <Lines rows={openRows} titles={titles} chosen={chosen} label="Open approvals" />
            {open.hasNextPage && <More query={open} />}
            <ul aria-label="Open questions">
              {asking.rows.map((it) => (
                <li key={it.id}>
                  <QuestionLine session={it} isChosen={it.id === chosen} />
                </li>
              ))}
            </ul>
            {asking.hasNextPage && <More query={asking} />}
            {overRows.length > 0 && <h2 className="inbox-head">Answered</h2>}
            <Lines rows={overRows} titles={titles} chosen={chosen} label="Answered approvals" />
            {over.hasNextPage && <More query={over} />}
          </div>
          <section ref={detail} className="inbox-detail" aria-label="The chosen approval">
            <Link href={address.approvals()} className="inbox-back">
              <ArrowLeft size={14} aria-hidden /> all approvals
            </Link>
            {isQuestion ? (
              <AskedSession key={chosen} sessionId={chosen} />
            ) : (
              <Chosen chosen={chosen} followed={followed} isRead={isRead} />
            )}
          </section>
        </div>
      )}
    </Page>
  );
}

interface ChosenProps {
  readonly chosen: string | null;
  readonly followed: Followed | null;
  readonly isRead: boolean;
}

function Chosen({ chosen, followed, isRead }: ChosenProps) {
  if (followed !== null) {
    const { approval, isSettled } = followed;
    return <ApprovalCard key={approval.id} approval={approval} isSettled={isSettled} />;
  }
  if (chosen === null) return <p className="quiet">Choose one to see exactly what is asked.</p>;
  if (!isRead) return <Loading what="the approval" />;
  return (
    <p>
      The approval <code>{visible(chosen)}</code> is not among those read so far. It may be older,
      or of a session that was deleted.
    </p>
  );
}

interface LinesProps {
  readonly rows: readonly Approval[];
  /** Of the sessions, by id. */
  readonly titles: ReadonlyMap<string, string>;
  readonly chosen: string | null;
  readonly label: string;
}

function Lines({ rows, titles, chosen, label }: LinesProps) {
  return (
    <ul aria-label={label}>
      {rows.map((it) => (
        <li key={it.id}>
          <Line
            approval={it}
            title={titles.get(it.sessionId) ?? shortId(it.sessionId)}
            isChosen={it.id === chosen}
          />
        </li>
      ))}
    </ul>
  );
}

interface LineProps {
  readonly approval: Approval;
  /** Of its session. */
  readonly title: string;
  readonly isChosen: boolean;
}

function Line({ approval, title, isChosen }: LineProps) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (isChosen) link.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  const isOpen = approval.status === "open";
  const tone = isOpen ? "needs" : approval.status === "approved" ? "done" : "stopped";
  return (
    <Link
      ref={link}
      href={address.approval(approval.id)}
      className="inbox-line"
      aria-current={isChosen ? "true" : undefined}
    >
      <ToneMark tone={tone} />
      <span className="inbox-what">
        <span className="inbox-action">{questionName(approval)}</span>
        <span className="inbox-session">{visible(title)}</span>
        <span className="quiet">{isOpen ? visible(approval.rule) : outcome(approval)}</span>
      </span>
      <span className="inbox-when">
        <Age at={approval.decidedAt ?? approval.requestedAt} />
        {isOpen && approval.expiresAt !== null && (
          <span className="quiet">
            <Left until={approval.expiresAt} /> left
          </span>
        )}
      </span>
    </Link>
  );
}

interface MoreProps {
  readonly query: { readonly isFetching: boolean; readonly fetchNextPage: () => unknown };
}

function More({ query }: MoreProps) {
  return (
    <Button kind="quiet" disabled={query.isFetching} onClick={() => void query.fetchNextPage()}>
      More …
    </Button>
  );
}
