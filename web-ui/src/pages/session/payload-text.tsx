import { useState } from "react";
import { useBlob } from "../../api/history-queries.ts";
import type { Payload } from "../../model/session/details.ts";
import { bytes } from "../../model/words.ts";
import { Button } from "../../parts/button.tsx";
import { MachineText } from "../../parts/machine-text.tsx";
import { Failed } from "../../parts/states.tsx";

/** Read at once of a payload that lies beside its event; more on demand. */
const BYTES_FIRST = 256 * 1024;
const GROWTH = 8;

interface Props {
  readonly payload: Payload;
  readonly label?: string;
  /** How the whole text is laid out. */
  readonly shape?: (text: string) => string;
}

/** A text of an event; what lies beside the event is read when somebody wants it. */
export function PayloadText({ payload, label = "text", shape = (it) => it }: Props) {
  const [bytesMax, setBytesMax] = useState(0);
  const { data, error, isFetching, refetch } = useBlob(payload.blob, bytesMax, bytesMax > 0);
  if (payload.bytes === 0) return <p className="quiet">(empty)</p>;
  if (payload.blob === "") return <MachineText text={shape(payload.text)} label={label} />;
  const isAll = data !== undefined && bytesMax >= payload.bytes;
  return (
    <>
      <MachineText text={data ?? `${payload.text}…`} label={label} />
      {error !== null && <Failed doing="read the text" error={error} onRetry={refetch} />}
      {!isAll && (
        <Button
          kind="quiet"
          disabled={isFetching}
          onClick={() => setBytesMax(bytesMax === 0 ? BYTES_FIRST : bytesMax * GROWTH)}
        >
          {isFetching ? "reading …" : `Read more of ${bytes(payload.bytes)}`}
        </Button>
      )}
    </>
  );
}
