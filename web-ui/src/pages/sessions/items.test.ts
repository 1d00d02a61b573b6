import { expect, test } from "vitest";
import type { SessionRow } from "../../model/types.ts";
import { type Item, listItems, neighbour } from "./items.ts";

function row(id: string, headSeq = 1): SessionRow {
  const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  const rest = {
    title: id,
    agent: "a",
    agentVersion: 1,
    labels: [],
    steps: 1,
    explain: "",
    parent: null,
  };
  return { id, headSeq, usage, status: "thinking", createdAt: 0, updatedAt: 0, ...rest };
}

function shown(items: readonly Item[]): string[] {
  return items.map((it) => {
    switch (it.type) {
      case "head":
        return `# ${it.section} ${it.count}${it.hasMore ? "+" : ""}`;
      case "row":
        return it.session.id;
      case "more":
        return "…";
    }
  });
}

test("sections stand in their order, empty ones not at all", () => {
  const items = listItems([
    { section: "needs", rows: [row("a")], hasMore: false },
    { section: "running", rows: [], hasMore: false },
    { section: "rest", rows: [row("b"), row("c")], hasMore: true },
  ]);
  expect(shown(items)).toEqual(["# needs 1", "a", "# rest 2+", "b", "c", "…"]);
});

test("a session that moves while the list is read stands once, where it is newest", () => {
  const items = listItems([
    { section: "needs", rows: [row("a", 4)], hasMore: false },
    { section: "running", rows: [row("a", 5)], hasMore: false },
  ]);
  expect(shown(items)).toEqual(["# running 1", "a"]);
});

test("a row that two pages hold stands once", () => {
  const items = listItems([{ section: "rest", rows: [row("a"), row("a")], hasMore: false }]);
  expect(shown(items)).toEqual(["# rest 1", "a"]);
});

test.each([
  [null, 1, "a"],
  [null, -1, "c"],
  ["a", 1, "b"],
  ["b", 1, "c"],
  ["c", 1, "c"],
  ["a", -1, "a"],
  ["gone", 1, "a"],
])("from %s by %i it goes to %s", (from, by, to) => {
  const items = listItems([
    { section: "needs", rows: [row("a")], hasMore: false },
    { section: "rest", rows: [row("b"), row("c")], hasMore: true },
  ]);
  expect(neighbour(items, from, by)).toBe(to);
});

test("nobody is next to nobody", () => expect(neighbour([], null, 1)).toBeNull());
