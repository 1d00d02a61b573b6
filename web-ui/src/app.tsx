import { Suspense, useEffect } from "react";
import { Route, Router, Switch, useLocation, useParams } from "wouter";
import { address, type Moment, parseMoment } from "./address.ts";
import { Help } from "./keys/help.tsx";
import { Palette } from "./keys/palette.tsx";
import { useKeyboard } from "./keys/use-keys.ts";
import { AgentsPage } from "./pages/agents/agents-page.tsx";
import { ApprovalsPage } from "./pages/approvals/approvals-page.tsx";
import { ComparePage } from "./pages/compare/compare-page.tsx";
import { FilePage } from "./pages/file/file-page.tsx";
import { NewSessionPage } from "./pages/new/new-session-page.tsx";
import { SessionPage } from "./pages/session/session-page.tsx";
import { SessionsPage } from "./pages/sessions/sessions-page.tsx";
import { WorkersPage } from "./pages/workers/workers-page.tsx";
import { Bar } from "./parts/bar.tsx";
import { DropFile } from "./parts/drop-file.tsx";
import { FileBar } from "./parts/file-bar.tsx";
import { Page } from "./parts/page.tsx";
import { Empty, Loading } from "./parts/states.tsx";
import { IS_FILE, VIEW_BASE } from "./view-base.ts";

/** The bar above, one page below, and what lies over both. */
export function App() {
  useKeyboard();
  return (
    <Router base={VIEW_BASE}>
      <Pages />
    </Router>
  );
}

function Pages() {
  return (
    <div className="app">
      {IS_FILE ? <FileBar /> : <Bar />}
      <Suspense fallback={<Loading what="the page" />}>
        <Switch>
          <Route path="/s/:moment" component={SessionRoute} />
          {IS_FILE && <Route component={FilePage} />}
          <Route path="/" component={SessionsPage} />
          <Route path="/approvals" component={ApprovalsPage} />
          <Route path="/agents" component={AgentsPage} />
          <Route path="/workers" component={WorkersPage} />
          <Route path="/new" component={NewSessionPage} />
          <Route path="/compare/:a/:b" component={CompareRoute} />
          <Route component={NotHere} />
        </Switch>
      </Suspense>
      <Palette />
      <Help />
      <DropFile />
    </div>
  );
}

function SessionRoute() {
  const moment = parseMoment(useParams()["moment"] ?? "");
  useOneAddress(moment);
  return moment === null ? (
    <NotHere />
  ) : (
    <SessionPage key={moment.sessionId} moment={moment} isReadOnly={IS_FILE} />
  );
}

/** A moment whose number was written with zeros before it gets its own address. */
function useOneAddress(moment: Moment | null): void {
  const [here, go] = useLocation();
  const to = moment === null ? null : address.session(moment.sessionId, moment.seq);
  const isPadded = /(@|%40)0/.test(here);
  useEffect(() => {
    if (isPadded && to !== null) go(to, { replace: true });
  }, [isPadded, to, go]);
}

function CompareRoute() {
  const { a = "", b = "" } = useParams<{ a: string; b: string }>();
  return <ComparePage a={a} b={b} />;
}

function NotHere() {
  return (
    <Page title="Nothing here">
      <Empty title="There is nothing at this address.">
        <p>Sessions are at /, one of them at /s/ID, a moment of it at /s/ID@SEQ.</p>
      </Empty>
    </Page>
  );
}
