import { useState } from "react";
import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";

interface Props {
  readonly last: number;
  readonly onMoment: (seq: number) => void;
  readonly onClose: () => void;
}

/** Goes to an event by its number. */
export function GoToDialog({ last, onMoment, onClose }: Props) {
  const [text, setText] = useState("");
  const seq = /^\d+$/.test(text.trim()) ? Number(text.trim()) : 0;
  const isThere = seq >= 1 && seq <= last;
  return (
    <Dialog title="Go to an event" onClose={onClose} className="go-to">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isThere) return;
          onClose();
          onMoment(seq);
        }}
      >
        <label>
          Event, 1 to {last}
          <input
            autoFocus
            inputMode="numeric"
            value={text}
            aria-invalid={text !== "" && !isThere}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        {text !== "" && !isThere && <p className="tone-failed">There is no such event.</p>}
        <Button kind="main" type="submit" disabled={!isThere}>
          Go there
        </Button>
      </form>
    </Dialog>
  );
}
