import { type FormEvent, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { address } from "../../address.ts";
import { useAgents, useCreateSession } from "../../api/queries.ts";
import { newKey } from "../../model/session/new-key.ts";
import { FIRST_AGENT } from "../../model/shell.ts";
import { Button } from "../../parts/button.tsx";
import { CliLine } from "../../parts/copy.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { readName, writeName } from "../../preferences.ts";
import { EMPTY_DRAFT, type NewDraft, problemOf, submitLine, toRequest } from "./draft.ts";
import "./new.css";

/** Starts a session: a task, and the agent that works on it. */
export function NewSessionPage() {
  const agents = useAgents();
  const names = agents.data?.map((it) => it.name) ?? [];
  return (
    <Page title="New session">
      {agents.error !== null && (
        <Failed
          doing="read the agents"
          error={agents.error}
          onRetry={() => void agents.refetch()}
          isStale={names.length > 0}
        />
      )}
      {agents.isPending && agents.error === null && <Loading what="the agents" />}
      {agents.isSuccess && names.length === 0 && (
        <Empty title="No agent is stored yet." command={FIRST_AGENT}>
          <p>
            An agent is a file that says what it is told, which model it asks and which tools it may
            use: see docs/agents.md. Store one, and it can be chosen here.
          </p>
        </Empty>
      )}
      {names.length > 0 && <NewForm agents={names} />}
    </Page>
  );
}

function NewForm({ agents }: { readonly agents: readonly string[] }) {
  const [search] = useSearchParams();
  const wished = search.get("agent") ?? "";
  const first = agents.includes(wished) ? wished : (agents[0] ?? "");
  const [draft, setDraft] = useState<NewDraft>(() => ({
    ...EMPTY_DRAFT,
    agent: first,
    by: readName(),
  }));
  // One key for one form: pressing twice, or again after a broken connection, starts one session.
  const [clientKey] = useState(newKey);
  const create = useCreateSession();
  const [, go] = useLocation();
  const problem = problemOf(draft);
  const change = (part: Partial<NewDraft>) => setDraft({ ...draft, ...part });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (problem !== null) return;
    writeName(draft.by);
    create.mutate(toRequest(draft, clientKey), { onSuccess: (it) => go(address.session(it.id)) });
  };
  return (
    <form className="new" onSubmit={submit}>
      <label>
        Task
        <textarea
          // biome-ignore lint/a11y/noAutofocus: the page is this field
          autoFocus
          rows={8}
          value={draft.task}
          placeholder="What shall be done, in words"
          onChange={(event) => change({ task: event.target.value })}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
          }}
        />
      </label>
      <div className="new-row">
        <label>
          Agent
          <select value={draft.agent} onChange={(event) => change({ agent: event.target.value })}>
            {agents.map((it) => (
              <option key={it}>{it}</option>
            ))}
          </select>
        </label>
        <label>
          Your name in the history
          <input
            value={draft.by}
            maxLength={128}
            autoComplete="username"
            onChange={(event) => change({ by: event.target.value })}
          />
        </label>
      </div>
      <details>
        <summary>Title, labels, workspace, hold</summary>
        <div className="new-more">
          <label>
            Title
            <input
              value={draft.title}
              placeholder="the first line of the task"
              onChange={(event) => change({ title: event.target.value })}
            />
          </label>
          <label>
            Labels
            <input
              value={draft.labels}
              placeholder="team=web ticket=17"
              onChange={(event) => change({ labels: event.target.value })}
            />
          </label>
          <label>
            Workspace
            <input
              value={draft.workspace}
              placeholder="a folder of its own"
              onChange={(event) => change({ workspace: event.target.value })}
            />
          </label>
          <label className="new-check">
            <input
              type="checkbox"
              checked={draft.paused}
              onChange={(event) => change({ paused: event.target.checked })}
            />
            Hold it before it does anything, so that it can be stepped through
          </label>
        </div>
      </details>
      {create.error !== null && <Failed doing="start the session" error={create.error} />}
      <div className="new-actions">
        <Button type="submit" kind="main" disabled={problem !== null || create.isPending}>
          Start
        </Button>
        <Link href={address.sessions()}>Back to the sessions</Link>
        {problem !== null && draft.task !== "" && <span className="quiet">{problem}</span>}
      </div>
      <CliLine line={submitLine(draft)} />
    </form>
  );
}
