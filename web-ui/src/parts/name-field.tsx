import { useId, useSyncExternalStore } from "react";
import { readTypedName, watchName, writeName } from "../preferences.ts";

/** Longest name that the server keeps. */
const CHARS_MAX = 128;

/** The person's name, the same in every field that asks for it. */
export function useName(): string {
  return useSyncExternalStore(watchName, readTypedName);
}

interface Props {
  /** Without it nothing can be sent. */
  readonly isNeeded?: boolean;
}

/** Asks for the name that the history keeps, and says so where one is needed and there is none. */
export function NameField({ isNeeded = true }: Props) {
  const name = useName();
  const hint = useId();
  const isMissing = isNeeded && name.trim() === "";
  return (
    <div className="name-field">
      <label>
        Your name in the history
        <input
          value={name}
          required={isNeeded}
          maxLength={CHARS_MAX}
          autoComplete="username"
          aria-describedby={isMissing ? hint : undefined}
          onChange={(event) => writeName(event.target.value)}
        />
      </label>
      {isMissing && (
        <p id={hint} className="quiet">
          Say who you are first: the history keeps it.
        </p>
      )}
    </div>
  );
}

/** A press that cannot count without a name leads to where the name is asked for. */
export function leadToName(event: React.MouseEvent<HTMLElement>): void {
  const isOff = event.target instanceof Element && event.target.closest("[aria-disabled]") !== null;
  const field = event.currentTarget.querySelector<HTMLInputElement>(".name-field input");
  if (isOff && field !== null && field.value.trim() === "") field.focus();
}
