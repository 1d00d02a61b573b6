import { expect, type Page } from "@playwright/test";
import { longSession } from "./long-session.ts";
import { test } from "./stage.ts";
import { completed, HELLO } from "./stories.ts";

const EVENTS = 8_000;

const tree = (page: Page) => page.getByRole("treegrid", { name: "Steps" });
const selected = (page: Page) => tree(page).locator("[aria-selected=true]");
const heading = (page: Page) =>
  page.getByRole("region", { name: "Details" }).getByRole("heading", { level: 2 });

/** The selected row is that one, in sight, and the details are about it. */
async function expectAt(page: Page, row: string): Promise<void> {
  await expect(selected(page)).toHaveAttribute("aria-rowindex", row);
  await expect(selected(page)).toBeInViewport();
  const id = await selected(page).getAttribute("id");
  await expect(tree(page)).toHaveAttribute("aria-activedescendant", id ?? "");
  await expect(tree(page)).toBeFocused();
}

async function rowCount(page: Page): Promise<string> {
  return (await tree(page).getAttribute("aria-rowcount")) ?? "";
}

test("every key of the tree leads to its row, also to one that was not read", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  const it = await longSession(stage, EVENTS);
  await page.goto(`${stage.url}/s/${it.id}`);
  await expect(tree(page).getByRole("row").last()).toBeInViewport();
  const all = await rowCount(page);
  expect(Number(all)).toBeGreaterThan(1_000);
  await page.keyboard.press("Home");
  await expectAt(page, "1");
  await expect(heading(page)).toContainText("session");
  await page.keyboard.press("h");
  await expect(tree(page)).toHaveAttribute("aria-rowcount", "1");
  await page.keyboard.press("l");
  await expect(tree(page)).toHaveAttribute("aria-rowcount", all);
  await page.keyboard.press("End");
  await expectAt(page, all);
  // Keys that come faster than rows are read are not lost.
  await page.keyboard.press("Home");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await expectAt(page, "3");
  await page.keyboard.press("PageDown");
  await expect(selected(page)).not.toHaveAttribute("aria-rowindex", "3");
  const screen = Number(await selected(page).getAttribute("aria-rowindex")) - 3;
  expect(screen).toBeGreaterThan(5);
  await page.keyboard.press("PageUp");
  await expectAt(page, "3");
  // From a step far away to the session around it.
  await page.keyboard.press("End");
  await expectAt(page, all);
  while ((await selected(page).getAttribute("aria-level")) !== "1") {
    // What is open is folded first.
    if ((await selected(page).getAttribute("aria-expanded")) === "true") {
      await page.keyboard.press("h");
      await expect(selected(page)).toHaveAttribute("aria-expanded", "false");
    }
    const before = (await selected(page).getAttribute("id")) ?? "";
    await page.keyboard.press("h");
    await expect(selected(page)).not.toHaveAttribute("id", before);
  }
  await expectAt(page, "1");
});

test("in a past moment the first and the last row are those of that moment", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  const it = await longSession(stage, EVENTS);
  await page.goto(`${stage.url}/s/${it.id}@5000`);
  await expect(page.getByLabel("The past")).toContainText("event 5000");
  await expect(selected(page)).toBeInViewport();
  await page.keyboard.press("Home");
  await expectAt(page, "1");
  await expect(heading(page)).toContainText("session");
  await page.keyboard.press("End");
  await expectAt(page, await rowCount(page));
  await page.keyboard.press("k");
  await expectAt(page, `${Number(await rowCount(page)) - 1}`);
  // A pane that scrolls keeps the keys that scroll it.
  await page.getByRole("log", { name: "Conversation" }).focus();
  await page.keyboard.press("Home");
  await expect(page.getByRole("log", { name: "Conversation" })).toBeFocused();
  await expect(selected(page)).not.toHaveAttribute("aria-rowindex", "1");
});

test("a row that was open then tells what was known then", async ({ page, stage }) => {
  const id = await completed(stage);
  const call = tree(page).locator("[id='span-call:1.1']");
  const step = tree(page).locator("[id='span-step:1']");
  await page.goto(`${stage.url}/s/${id}`);
  await expect(call).toContainText("on worker");
  await expect(call).toHaveAttribute("aria-expanded", "true");
  await page.goto(`${stage.url}/s/${id}@3`);
  await expect(page.getByLabel("The past")).toContainText("event 3 of");
  // Asked for, and not even looked at: no worker, no time, nothing below it.
  await expect(call).toContainText("echo pushed > pushed.txt");
  await expect(call).not.toContainText("on worker");
  await expect(call.getByRole("gridcell").last()).toHaveText("…");
  await expect(call).not.toHaveAttribute("aria-expanded");
  await expect(step.getByRole("gridcell").last()).toHaveText("…");
  await page.getByRole("slider", { name: "Moment of the session" }).press("ArrowRight");
  await expect(page.getByLabel("The past")).toContainText("event 4 of");
  await expect(call).toHaveAttribute("aria-expanded", "true");
  await expect(tree(page).getByRole("row").last()).toContainText("waits");
});

test("the first look asks for the messages, then once for the newest rows, then for the strip", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  const it = await longSession(stage, EVENTS);
  const asked: string[] = [];
  page.on("request", (request) => {
    const call = request.url().split("/").at(-1) ?? "";
    if (["GetState", "ListSpans", "GetTimeline"].includes(call)) asked.push(call);
  });
  await page.goto(`${stage.url}/s/${it.id}`);
  await expect(page.locator(".scrubber-live")).toHaveText("the end");
  await expect(tree(page).getByRole("row").last()).toBeInViewport();
  expect(asked).toEqual(["GetState", "ListSpans", "GetTimeline"]);
});

test("over the time of a long session each row in sight has a mark that can be seen", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  const it = await longSession(stage, EVENTS);
  await page.goto(`${stage.url}/s/${it.id}`);
  const bars = page.locator(".tree-bar");
  await expect(bars.first()).toBeVisible();
  await page.getByRole("button", { name: "Time of all" }).click();
  await expect(page.getByRole("button", { name: "Time in sight" })).toBeVisible();
  const room = await page.locator(".tree-all").boundingBox();
  if (room === null) throw new Error("no tree");
  const boxes = await bars.evaluateAll((all) =>
    all.map((it) => it.getBoundingClientRect().toJSON()),
  );
  expect(boxes.length).toBeGreaterThan(10);
  for (const box of boxes as DOMRect[]) {
    expect(box.width).toBeGreaterThanOrEqual(8);
    expect(box.x).toBeGreaterThanOrEqual(room.x);
    expect(box.x + Math.min(box.width, 8)).toBeLessThanOrEqual(room.x + room.width + 1);
  }
});
