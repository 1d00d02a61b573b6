import { useEffect } from "react";
import { useReplay } from "../../api/history-queries.ts";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { CliLine } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { ToneMark } from "../../parts/status-mark.tsx";

interface Props {
  readonly sessionId: string;
  readonly onMoment: (seq: number) => void;
  readonly onClose: () => void;
}

/** Do the rules of this server come to the recorded decisions? Nothing is run for it. */
export function ReplayDialog({ sessionId, onMoment, onClose }: Props) {
  const { data, error, mutate } = useReplay(sessionId);
  useEffect(() => mutate(), [mutate]);
  return (
    <Dialog title="Replay" onClose={onClose}>
      <h2>Replay</h2>
      <p className="quiet">
        The recorded inputs are decided again by the rules of this server, and what follows is
        compared with what was recorded. No model is asked and no tool runs.
      </p>
      {data === undefined && error === null && <Loading what="the whole history" rows={2} />}
      {error !== null && <Failed doing="replay" error={error} onRetry={() => mutate()} />}
      {data?.verdict === "same" && (
        <p className="status tone-done" role="status">
          <ToneMark tone="done" />
          The same: {data.events} events from {data.inputs} inputs.
        </p>
      )}
      {data !== undefined && data.unchecked > 0 && (
        <p className="quiet">
          {data.unchecked} {data.unchecked === 1 ? "decision was" : "decisions were"} not checked:
          texts of this session were redacted before it was imported.
        </p>
      )}
      {data !== undefined && data.verdict !== "same" && (
        <div role="status">
          <p className="status tone-failed">
            <ToneMark tone="failed" />
            Another course from event {data.seq} on.
          </p>
          <p className="machine-words">{visible(data.reason)}</p>
          <Button
            onClick={() => {
              onClose();
              onMoment(data.seq);
            }}
          >
            Go to event {data.seq}
          </Button>
        </div>
      )}
      <CliLine line={`stepwell replay ${sessionId}`} />
      <div className="dialog-actions">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
