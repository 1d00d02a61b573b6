import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { address } from "../address.ts";
import { Dialog } from "../parts/dialog.tsx";
import { writeTheme } from "../preferences.ts";
import { IS_FILE } from "../view-base.ts";
import { IS_MAC } from "./help.tsx";
import { BINDINGS, shown } from "./table.ts";
import { commandsNow, useKeys } from "./use-keys.ts";

interface Entry {
  readonly id: string;
  readonly words: string;
  readonly keys: readonly string[];
  readonly run: () => void;
}

/** An id of a session, or the beginning of one, alone or with a moment. */
const SESSION_ID = /^[0-9A-Za-z]{4,26}(@[0-9]+)?$/;

/** Everything that can be done from here, by name. */
export function Palette() {
  const [entries, setEntries] = useState<readonly Entry[] | null>(null);
  const [, go] = useLocation();
  useKeys({ palette: () => setEntries(entriesNow(go)) });
  if (entries === null) return null;
  return <PaletteDialog entries={entries} go={go} onClose={() => setEntries(null)} />;
}

function entriesNow(go: (to: string) => void): Entry[] {
  const pages: Array<[string, string]> = IS_FILE
    ? []
    : [
        ["Sessions", address.sessions()],
        ["New session", address.newSession()],
        ["Approvals", address.approvals()],
        ["Agents", address.agents()],
        ["Workers", address.workers()],
      ];
  // Moving in a list by name would be slower than any key.
  const commands = commandsNow().filter(
    ({ command }) => !["palette", "close"].includes(command) && BINDINGS[command].scope !== "list",
  );
  return [
    ...pages.map(([words, to]) => ({
      id: to,
      words: `Go to: ${words}`,
      keys: [],
      run: () => go(to),
    })),
    ...commands.map(({ command, run }) => ({
      id: command,
      words: capital(BINDINGS[command].says),
      keys: BINDINGS[command].keys,
      run,
    })),
    ...(["system", "light", "dark"] as const).map((theme) => ({
      id: `theme-${theme}`,
      words: `Colours: ${theme}`,
      keys: [],
      run: () => writeTheme(theme),
    })),
  ];
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

interface Props {
  readonly entries: readonly Entry[];
  readonly go: (to: string) => void;
  readonly onClose: () => void;
}

function PaletteDialog({ entries, go, onClose }: Props) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found = find(entries, text, go);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    document.getElementById(`palette-${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    // The dialog is gone before the command looks where the focus is.
    queueMicrotask(entry.run);
  };
  return (
    <Dialog title="Commands" onClose={onClose} className="palette">
      <input
        autoFocus
        value={text}
        placeholder="Command, or the id of a session"
        aria-label="Command, or the id of a session"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={`palette-${chosen}`}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
          else if (event.key === "Enter") run(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <div id="palette-list" role="listbox" aria-label="Commands" className="palette-list">
        {found.map((entry, row) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
          <div
            key={entry.id}
            id={`palette-${row}`}
            role="option"
            tabIndex={-1}
            aria-selected={row === chosen}
            className="palette-row"
            onClick={() => run(entry)}
          >
            <span>{entry.words}</span>
            {entry.keys.slice(0, 1).map((key) => (
              <kbd key={key}>{shown(key, IS_MAC)}</kbd>
            ))}
          </div>
        ))}
        {found.length === 0 && <p className="quiet">No command has these words.</p>}
      </div>
    </Dialog>
  );
}

function find(entries: readonly Entry[], text: string, go: (to: string) => void): Entry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.filter((it) =>
    words.every((word) => it.words.toLowerCase().includes(word)),
  );
  const id = text.trim();
  if (!SESSION_ID.test(id)) return found;
  return [
    ...found,
    { id: "session", words: `Open session ${id}`, keys: [], run: () => go(`/s/${id}`) },
  ];
}
