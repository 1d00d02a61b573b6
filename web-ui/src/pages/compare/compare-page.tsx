import { Link } from "wouter";
import { address } from "../../address.ts";
import type { Comparison, Difference } from "../../api/decode-history.ts";
import { useComparison } from "../../api/history-queries.ts";
import { visible } from "../../model/visible.ts";
import { bytes, count, shortId } from "../../model/words.ts";
import { CliLine } from "../../parts/copy.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Page } from "../../parts/page.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { StatusMark } from "../../parts/status-mark.tsx";
import "./compare.css";

interface Props {
  readonly a: string;
  readonly b: string;
}

/** Two sessions side by side, step by step, the first difference marked. */
export function ComparePage({ a, b }: Props) {
  const { data, error, refetch } = useComparison(a, b);
  return (
    <Page title={`${shortId(a)} and ${shortId(b)}`}>
      {error !== null && <Failed doing="compare the sessions" error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Loading what="both sessions" />}
      {data !== undefined && <Compared it={data} />}
      <CliLine line={`stepwell diff ${a} ${b}`} />
    </Page>
  );
}

function Compared({ it }: { readonly it: Comparison }) {
  const first = it.differences.find((one) => one.isDivergence) ?? it.differences[0];
  return (
    <div className="compare">
      <div className="compare-line compare-heads">
        <Side side={it.a} />
        <Side side={it.b} />
      </div>
      {first === undefined ? (
        <Empty title="The same in every step." />
      ) : (
        <p className="compare-first">
          First difference: {place(first)}, {visible(first.what)}.{" "}
          {first.step > 1 && `Steps 1 to ${first.step - 1} are the same.`}
        </p>
      )}
      {it.differences.map((one) => (
        <Pair
          key={`${one.step} ${one.what} ${one.a} ${one.b}`}
          one={one}
          isFirst={one === first}
          ids={[it.a.session.id, it.b.session.id]}
        />
      ))}
      {it.total > it.differences.length && (
        <p className="quiet">and {count(it.total - it.differences.length)} more differences</p>
      )}
    </div>
  );
}

function place(one: Difference): string {
  return one.step === 0 ? "at the beginning" : `step ${one.step}`;
}

function Side({ side }: { readonly side: Comparison["a"] }) {
  const { session, steps } = side;
  return (
    <div>
      <h2>
        <Link href={address.session(session.id)}>{visible(session.title)}</Link>
      </h2>
      <p className="compare-facts">
        <StatusMark status={session.status} />
        <code>{shortId(session.id)}</code>
        <span>{steps} steps</span>
        <span>{count(session.usage.promptTokens + session.usage.completionTokens)} tokens</span>
      </p>
    </div>
  );
}

interface PairProps {
  readonly one: Difference;
  readonly isFirst: boolean;
  readonly ids: readonly [string, string];
}

function Pair({ one, isFirst, ids }: PairProps) {
  return (
    <section className={isFirst ? "compare-pair is-first" : "compare-pair"}>
      <h3>
        {place(one)} · {visible(one.what)}
        {isFirst && <span className="compare-mark">first difference</span>}
      </h3>
      <div className="compare-line">
        <Half text={one.a} size={one.aBytes} id={ids[0]} seq={one.aSeq} />
        <Half text={one.b} size={one.bBytes} id={ids[1]} seq={one.bSeq} />
      </div>
    </section>
  );
}

interface HalfProps {
  readonly text: string | null;
  readonly size: number;
  readonly id: string;
  readonly seq: number;
}

function Half({ text, size, id, seq }: HalfProps) {
  if (text === null) return <p className="quiet">not there</p>;
  const isCut = new Blob([text]).size < size;
  return (
    <div className="compare-half">
      {text === "" ? <p className="quiet">(empty)</p> : <MachineText text={text} linesMax={24} />}
      {isCut && <p className="quiet">the beginning of {bytes(size)}</p>}
      {seq > 0 && (
        <Link className="compare-to" href={address.session(id, seq)}>
          event {seq}
        </Link>
      )}
    </div>
  );
}
