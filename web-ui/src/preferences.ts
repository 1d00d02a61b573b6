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

/** The name under which this person decides and submits; empty when nobody said. */
export function readName(): string {
  return read(NAME_KEY) ?? "";
}

export function writeName(name: string): void {
  write(NAME_KEY, name.trim());
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
