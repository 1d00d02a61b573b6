import { expect, test } from "vitest";
import { BINDINGS, COMMANDS, meant, shown } from "./table.ts";

const stroke = (key: string, more: object = {}) => ({
  key,
  ctrl: false,
  meta: false,
  alt: false,
  ...more,
});

test("no key means two things", () => {
  for (const one of COMMANDS) {
    for (const other of COMMANDS) {
      if (one === other) continue;
      const both = BINDINGS[one].keys.filter((it) =>
        (BINDINGS[other].keys as readonly string[]).includes(it),
      );
      expect(both, `${one} and ${other}`).toEqual([]);
    }
  }
});

test.each([
  [stroke("j"), ["next"]],
  [stroke("?"), ["help"]],
  [stroke("k", { ctrl: true }), ["palette"]],
  [stroke("K", { meta: true }), ["palette"]],
  [stroke("j", { alt: true }), []],
  [stroke("j", { ctrl: true }), []],
  [stroke("y"), []],
])("%j means %j", (stroke, commands) => {
  expect(meant(stroke)).toEqual(commands);
});

test("keys are shown as they are printed on the keyboard", () => {
  expect(shown("mod+k", true)).toBe("⌘K");
  expect(shown("mod+k", false)).toBe("Ctrl K");
  expect(shown("ArrowDown", false)).toBe("↓");
  expect(shown("[", false)).toBe("[");
});
