import { expect, test } from "vitest";
import { byUrgency } from "./order.ts";

const asked = (name: string, requestedAt: number, expiresAt: number | null) => ({
  name,
  requestedAt,
  expiresAt,
});

test("what expires next is asked first, then what has waited longest", () => {
  const open = [
    asked("never, new", 9, null),
    asked("late", 8, 900),
    asked("soon", 7, 100),
    asked("never, old", 2, null),
    asked("soon, old", 1, 100),
  ];
  const names = byUrgency(open).map((it) => it.name);
  expect(names).toEqual(["soon, old", "soon", "late", "never, old", "never, new"]);
  expect(open[0]?.name).toBe("never, new");
});
