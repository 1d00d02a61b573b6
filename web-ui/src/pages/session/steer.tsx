import { Pause, Play, Square, StepForward } from "lucide-react";
import { useRef, useState } from "react";
import type { State } from "../../api/decode-history.ts";
import { type Steer, useSteer } from "../../api/history-queries.ts";
import type { Command } from "../../keys/table.ts";
import { useKeys } from "../../keys/use-keys.ts";
import { meaning } from "../../model/status.ts";
import { Button } from "../../parts/button.tsx";
import { Failed } from "../../parts/states.tsx";
import { useArmed } from "../../parts/use-armed.ts";
import { readName } from "../../preferences.ts";
import { CancelDialog } from "./cancel-dialog.tsx";

interface Way {
  readonly words: string;
  readonly icon: typeof Pause;
  readonly command: Command;
}

const STEERS: Record<Steer, Way> = {
  pause: { words: "Hold", icon: Pause, command: "hold" },
  resume: { words: "Go on", icon: Play, command: "goOn" },
  step: { words: "One step", icon: StepForward, command: "oneStep" },
  cancel: { words: "Cancel…", icon: Square, command: "cancel" },
};

/** Hold, go on, end: only what the present state allows. */
export function SteerButtons({ state }: { readonly state: State }) {
  const { session, isHeld } = state;
  const isOver = meaning(session.status).isOver;
  const steer = useSteer(session.id);
  const [isCancelling, setCancelling] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  // Once it is held the button of before means the contrary, and a step more is another step.
  const arming = useArmed(place, `${isHeld} ${steer.submittedAt}`);
  const held: readonly Steer[] = ["resume", "step", "cancel"];
  const offered: readonly Steer[] = isOver ? [] : isHeld ? held : ["pause", "cancel"];
  const act = (what: Steer) => {
    if (what === "cancel") setCancelling(true);
    else if (!steer.isPending) steer.mutate({ what, by: readName() });
  };
  useKeys(Object.fromEntries(offered.map((what) => [STEERS[what].command, () => act(what)])));
  return (
    <span ref={place} className="session-steer">
      {offered.map((what) => {
        const { words, icon: Icon } = STEERS[what];
        return (
          <Button
            key={what}
            icon={<Icon size={14} aria-hidden />}
            isOff={what !== "cancel" && (steer.isPending || !arming.isArmed)}
            onClick={() => (what === "cancel" || arming.mayAct()) && act(what)}
          >
            {words}
          </Button>
        );
      })}
      {isCancelling && <CancelDialog session={session} onClose={() => setCancelling(false)} />}
      {steer.error !== null && <Failed doing="steer the session" error={steer.error} />}
    </span>
  );
}
