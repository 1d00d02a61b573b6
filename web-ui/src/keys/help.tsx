import { useState } from "react";
import { Dialog } from "../parts/dialog.tsx";
import { BINDINGS, COMMANDS, type Command, SCOPES, type Scope, shown } from "./table.ts";
import { useKeys } from "./use-keys.ts";

export const IS_MAC = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** All keys, from the table that listens to them. */
export function Help() {
  const [isOpen, setOpen] = useState(false);
  useKeys({ help: () => setOpen(true) });
  if (!isOpen) return null;
  return (
    <Dialog title="Keys" onClose={() => setOpen(false)}>
      <h2>Keys</h2>
      {SCOPES.map(([scope, title]) => (
        <section key={scope} className="keys">
          <h3>{title}</h3>
          <dl>
            {COMMANDS.filter((it) => isShown(it, scope)).map((it) => (
              <div key={it} className="keys-row">
                <dt>
                  {BINDINGS[it].keys.map((key) => (
                    <kbd key={key}>{shown(key, IS_MAC)}</kbd>
                  ))}
                </dt>
                <dd>{BINDINGS[it].says}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <p className="quiet">Esc never approves anything.</p>
    </Dialog>
  );
}

/** Commands without a key are in the palette only. */
function isShown(it: Command, scope: Scope): boolean {
  return BINDINGS[it].scope === scope && BINDINGS[it].keys.length > 0;
}
