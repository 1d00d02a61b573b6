// What this browser remembers for the person: nothing of it is needed.

export type Theme = "system" | "light" | "dark";

const THEME_KEY = "stepwell.theme";
const NAME_KEY = "stepwell.name";

export function readTheme(): Theme {
  const stored = read(THEME_KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function writeTheme(theme: Theme): void {
  write(THEME_KEY, theme);
  applyTheme(theme);
}

export function applyTheme(theme: Theme): void {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
}

/** As it is typed, also where the browser forbids storage. */
let typedName = read(NAME_KEY) ?? "";
const nameWatchers = new Set<() => void>();

/** The name under which this person decides and submits; empty when nobody said. */
export function readName(): string {
  return typedName.trim();
}

/** The same as it is typed: all fields that ask for it show it. */
export function readTypedName(): string {
  return typedName;
}

export function writeName(name: string): void {
  typedName = name;
  write(NAME_KEY, name.trim());
  for (const changed of nameWatchers) changed();
}

/** Tells of every change of the name. */
export function watchName(changed: () => void): () => void {
  nameWatchers.add(changed);
  return () => {
    nameWatchers.delete(changed);
  };
}

/** A browser may forbid storage altogether. */
function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Then it is asked again next time.
  }
}
