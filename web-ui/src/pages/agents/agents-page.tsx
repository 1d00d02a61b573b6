import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { address } from "../../address.ts";
import { useAgent, useAgents } from "../../api/queries.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { FIRST_AGENT } from "../../model/shell.ts";
import type { Agent } from "../../model/types.ts";
import { CliLine } from "../../parts/copy.tsx";
import { DiffView } from "../../parts/diff-view.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Age } from "../../parts/time.tsx";
import "../../parts/pair.css";

function agentAddress(name: string, version: number | null = null): string {
  const at = version === null ? "" : `&version=${version}`;
  return `${address.agents()}?name=${encodeURIComponent(name)}${at}`;
}

/** The stored definitions and their versions. */
export function AgentsPage() {
  const { data, error, isPending, refetch } = useAgents();
  const [search] = useSearchParams();
  const [, go] = useLocation();
  const chosen = search.get("name");
  const shown = data?.find((it) => it.name === chosen) ?? data?.[0];
  const move = (by: number) => {
    if (data === undefined || shown === undefined) return;
    const next = data[Math.max(0, Math.min(data.length - 1, data.indexOf(shown) + by))];
    if (next !== undefined) go(agentAddress(next.name), { replace: true });
  };
  useKeys({ next: () => move(1), previous: () => move(-1) });
  return (
    <Page title="Agents">
      {error !== null && (
        <Failed
          doing="read the agents"
          error={error}
          onRetry={() => void refetch()}
          isStale={data !== undefined}
        />
      )}
      {isPending && error === null && <Loading what="the agents" />}
      {data?.length === 0 && (
        <Empty title="No agent is stored." command={FIRST_AGENT}>
          <p>
            An agent is a file with instructions, a model, tools, limits and rules: see
            docs/agents.md.
          </p>
        </Empty>
      )}
      {data !== undefined && shown !== undefined && (
        <div className="pair">
          <ul className="pair-list" aria-label="Agents">
            {data.map((it) => (
              <li key={it.name}>
                <Link
                  href={agentAddress(it.name)}
                  className="pair-line"
                  aria-current={it === shown ? "true" : undefined}
                >
                  <span>{it.name}</span>
                  <span className="quiet">
                    version {it.version}, <Age at={it.createdAt} isSaid />
                  </span>
                </Link>
              </li>
            ))}
          </ul>
          <Definition
            key={shown.name}
            latest={shown}
            version={Number(search.get("version") ?? shown.version)}
          />
        </div>
      )}
    </Page>
  );
}

interface DefinitionProps {
  readonly latest: Agent;
  readonly version: number;
}

function Definition({ latest, version }: DefinitionProps) {
  const [isDiff, setDiff] = useState(false);
  const { data, error, refetch } = useAgent(latest.name, version);
  const before = useAgent(isDiff && version > 1 ? latest.name : "", version - 1);
  const versions = Array.from({ length: latest.version }, (_, at) => latest.version - at);
  const [, go] = useLocation();
  return (
    <section className="pair-detail" aria-label={`The agent ${latest.name}`}>
      <header className="pair-head">
        <h2>{latest.name}</h2>
        <label>
          Version{" "}
          <select
            value={version}
            onChange={(event) =>
              go(agentAddress(latest.name, Number(event.target.value)), { replace: true })
            }
          >
            {versions.map((it) => (
              <option key={it}>{it}</option>
            ))}
          </select>
        </label>
        {version > 1 && (
          <label className="pair-check">
            <input type="checkbox" checked={isDiff} onChange={() => setDiff(!isDiff)} />
            what changed since version {version - 1}
          </label>
        )}
        <Link href={address.newSession(latest.name)} className="button button-plain">
          Start a session
        </Link>
      </header>
      {error !== null && (
        <Failed doing="read this version" error={error} onRetry={() => void refetch()} />
      )}
      {data === undefined && error === null && <Loading what="the definition" />}
      {data !== undefined &&
        (isDiff && before.data !== undefined ? (
          <DiffView
            label={`${latest.name} ${version - 1} → ${version}`}
            before={before.data.definition}
            after={data.definition}
          />
        ) : (
          <MachineText text={data.definition} label="definition" />
        ))}
      <CliLine line={`stepwell agents show ${latest.name}@${version}`} />
    </section>
  );
}
