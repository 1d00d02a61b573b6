import { useSyncExternalStore } from "react";
import { readTypedName, watchName, writeName } from "../preferences.ts";

/** Longest name that the server keeps. */
const CHARS_MAX = 128;

/** The person's name, the same in every field that asks for it. */
export function useName(): string {
  return useSyncExternalStore(watchName, readTypedName);
}

/** Asks for the name that the history keeps with an answer. */
export function NameField() {
  const name = useName();
  return (
    <label className="name-field">
      Your name in the history
      <input
        value={name}
        required
        maxLength={CHARS_MAX}
        autoComplete="username"
        onChange={(event) => writeName(event.target.value)}
      />
    </label>
  );
}
