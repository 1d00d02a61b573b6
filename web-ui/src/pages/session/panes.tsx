import { type ReactNode, useState } from "react";

type Pane = "left" | "middle" | "right";

const NAMES: Record<Pane, string> = { left: "Steps", middle: "Conversation", right: "Details" };
const PANES = Object.keys(NAMES) as Pane[];

type Props = Record<Pane, ReactNode>;

/** Three panes side by side; one at a time where there is no room for them. */
export function Panes(props: Props) {
  const [chosen, setChosen] = useState<Pane>("middle");
  return (
    <div className="panes">
      <div className="tabs panes-tabs" role="tablist" aria-label="Parts of the session">
        {PANES.map((pane) => (
          <button
            key={pane}
            type="button"
            role="tab"
            aria-selected={pane === chosen}
            onClick={() => setChosen(pane)}
          >
            {NAMES[pane]}
          </button>
        ))}
      </div>
      {PANES.map((pane) => (
        <section
          key={pane}
          className={pane === chosen ? `pane is-${pane} is-chosen` : `pane is-${pane}`}
          aria-label={NAMES[pane]}
        >
          {props[pane]}
        </section>
      ))}
    </div>
  );
}
