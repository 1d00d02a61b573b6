import { useEffect, useRef, useState } from "react";
import { useSteer } from "../../api/history-queries.ts";
import { shellWord } from "../../model/shell.ts";
import type { SessionRow } from "../../model/types.ts";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { CliLine } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { NameField } from "../../parts/name-field.tsx";
import { Failed } from "../../parts/states.tsx";
import { useArmed } from "../../parts/use-armed.ts";
import { readName } from "../../preferences.ts";

interface Props {
  readonly session: SessionRow;
  readonly onClose: () => void;
}

/** Asks before a session is ended for good; the harmless answer has the focus. */
export function CancelDialog({ session, onClose }: Props) {
  const [reason, setReason] = useState("");
  const steer = useSteer(session.id);
  const keep = useRef<HTMLSpanElement>(null);
  const arming = useArmed(keep, session.id);
  useEffect(() => keep.current?.querySelector("button")?.focus(), []);
  const cancel = () => {
    if (!arming.mayAct()) return;
    const ask = { what: "cancel", by: readName(), reason: reason.trim() } as const;
    steer.mutate(ask, { onSuccess: onClose });
  };
  const flag = reason.trim() === "" ? "" : ` --reason ${shellWord(reason.trim())}`;
  return (
    <Dialog title="Cancel the session" onClose={onClose} className="cancel">
      <h2>Cancel “{visible(session.title)}”?</h2>
      <p>It ends for good: nothing new starts, and tools that run are told to stop.</p>
      <NameField isNeeded={false} />
      <label className="cancel-reason">
        Why; kept in the history
        <textarea rows={2} value={reason} onChange={(event) => setReason(event.target.value)} />
      </label>
      {steer.error !== null && <Failed doing="cancel the session" error={steer.error} />}
      <span ref={keep} className="dialog-actions">
        <Button onClick={() => arming.mayAct() && onClose()}>Keep it</Button>
        <Button kind="danger" isOff={steer.isPending || !arming.isArmed} onClick={cancel}>
          Cancel for good
        </Button>
      </span>
      <CliLine line={`stepwell cancel ${session.id}${flag}`} />
    </Dialog>
  );
}
