import { useTools, useWorkers } from "../../api/queries.ts";
import type { Tool, Worker } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { duration } from "../../model/words.ts";
import { CliLine } from "../../parts/copy.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { ToneMark } from "../../parts/status-mark.tsx";
import { Age } from "../../parts/time.tsx";
import "./workers.css";

/** Who runs tools now, and which tools there are. */
export function WorkersPage() {
  const workers = useWorkers();
  const tools = useTools();
  const failed = workers.error ?? tools.error;
  return (
    <Page title="Workers">
      {failed !== null && (
        <Failed
          doing="read workers and tools"
          error={failed}
          isStale={workers.data !== undefined}
          onRetry={() => {
            void workers.refetch();
            void tools.refetch();
          }}
        />
      )}
      {workers.isPending && workers.error === null && <Loading what="the workers" rows={2} />}
      {workers.data?.length === 0 && (
        <Empty title="No worker is connected." command="stepwell worker">
          <p>Calls of tools wait until one connects. Sessions say so, and lose nothing.</p>
        </Empty>
      )}
      {workers.data !== undefined && workers.data.length > 0 && <Workers workers={workers.data} />}
      {(tools.data !== undefined || tools.error === null) && <h2 className="tools-head">Tools</h2>}
      {tools.isPending && tools.error === null && <Loading what="the tools" />}
      {tools.data?.length === 0 && <p className="quiet">No worker has registered a tool yet.</p>}
      {tools.data !== undefined && tools.data.length > 0 && <Tools tools={tools.data} />}
      <footer className="page-foot">
        <CliLine line="stepwell workers" />
      </footer>
    </Page>
  );
}

function Workers({ workers }: { readonly workers: readonly Worker[] }) {
  return (
    <div className="table-scroll">
      <table className="table">
        <thead>
          <tr>
            <th>Worker</th>
            <th className="number">Load</th>
            <th className="number">Last heartbeat</th>
            <th className="number">Connected</th>
            <th>Tools</th>
          </tr>
        </thead>
        <tbody>
          {workers.map((it) => (
            <tr key={it.name}>
              <td>
                <span className="status">
                  <ToneMark tone={it.draining ? "stopped" : "running"} />
                  {visible(it.name)}
                  {it.draining && <span className="quiet">takes no more calls</span>}
                </span>
              </td>
              <td className="number" title={`${it.runningCalls} calls run, ${it.capacity} may`}>
                <meter className="load" min={0} max={it.capacity} value={it.runningCalls} />{" "}
                {it.runningCalls} / {it.capacity}
              </td>
              <td className="number">
                <Age at={it.seenAt} />
              </td>
              <td className="number">
                <Age at={it.connectedAt} />
              </td>
              <td>
                <code>{it.tools.map(visible).join(", ")}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const EFFECTS: Record<string, string> = {
  read: "reads",
  idempotent: "may be repeated",
  write: "writes",
};

function Tools({ tools }: { readonly tools: readonly Tool[] }) {
  return (
    <ul className="tools" aria-label="Tools">
      {tools.map((it) => (
        <li key={it.name}>
          <details>
            <summary className="tool-line">
              <ToneMark tone={it.workers.length === 0 ? "stopped" : "running"} />
              <code>{visible(it.name)}</code>
              <span className="quiet">{EFFECTS[it.effect] ?? visible(it.effect)}</span>
              <span className="tool-says">{visible(it.description)}</span>
              <span className="quiet">
                {it.workers.length === 0
                  ? "no worker now"
                  : `on ${it.workers.map(visible).join(", ")}`}
              </span>
            </summary>
            <div className="tool-more">
              <p>{visible(it.description)}</p>
              <p className="quiet">
                One attempt may take {duration(it.timeoutMs)}. Arguments, as JSON Schema:
              </p>
              <MachineText text={indented(it.parameters)} label="schema of the arguments" />
            </div>
          </details>
        </li>
      ))}
    </ul>
  );
}

function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
