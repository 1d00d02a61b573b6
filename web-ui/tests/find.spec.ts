import { expect, type Page } from "@playwright/test";
import { longSession } from "./long-session.ts";
import { test } from "./stage.ts";
import { HELLO, HOSTILE, waiting } from "./stories.ts";

const bar = (page: Page) => page.getByRole("search", { name: "Find in this session" });
const found = (page: Page) => bar(page).getByRole("option");
const heading = (page: Page) =>
  page.getByRole("region", { name: "Details" }).getByRole("heading", { level: 2 });

test("a text is found by keyboard, and what it stands in is chosen", async ({ page, stage }) => {
  await stage.start(HELLO);
  const it = await longSession(stage, 2_000);
  await page.goto(`${stage.url}/s/${it.id}`);
  await expect(page.locator(".tree-row").first()).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("ON A FRIDAY");
  await expect(bar(page).getByRole("status")).toHaveText(/^\d+ found$/);
  const all = Number.parseInt((await bar(page).getByRole("status").textContent()) ?? "", 10);
  expect(all).toBeGreaterThan(2);
  await expect(found(page).first()).toContainText("not on a Friday");
  await page.keyboard.press("Enter");
  await expect(bar(page).getByRole("status")).toHaveText(`1 of ${all}`);
  await expect(heading(page)).toContainText("approval");
  const seq = await found(page).first().locator(".find-seq").textContent();
  await expect(page.locator(".inspector-facts")).toContainText(`–${seq}`);
  await expect(page.locator(".tree-row[aria-selected=true]")).toBeInViewport();
  await page.keyboard.press("Shift+Enter");
  await expect(bar(page).getByRole("status")).toHaveText(`${all} of ${all}`);
  // Outside the field the keys of the table do the same.
  await page.getByRole("treegrid").focus();
  await page.keyboard.press("n");
  await expect(bar(page).getByRole("status")).toHaveText(`1 of ${all}`);
  await page.keyboard.press("N");
  await expect(bar(page).getByRole("status")).toHaveText(`${all} of ${all}`);
  await page.keyboard.press("/");
  await page.keyboard.type("no such words anywhere");
  await expect(bar(page).getByRole("status")).toHaveText("nowhere in this session");
  // Esc leaves the field first, then it closes what was found; the text is there the next time.
  const field = bar(page).getByRole("textbox");
  await page.keyboard.press("Escape");
  await expect(field).not.toBeFocused();
  await expect(field).toHaveValue("no such words anywhere");
  await page.keyboard.press("Escape");
  await expect(bar(page)).toHaveCount(0);
  await page.keyboard.press("/");
  await expect(field).toBeFocused();
  await expect(field).toHaveValue("no such words anywhere");
});

test("from a past moment the next place is after it, and later ones lead back to now", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}@2`);
  await expect(page.getByLabel("The past")).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("pushed.txt");
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("The past")).toHaveCount(0);
  await expect(heading(page)).toContainText("model call");
});

test("a search of a long session is no pause, and goes on where enough was found", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  const it = await longSession(stage, 20_000);
  await page.goto(`${stage.url}/s/${it.id}`);
  await expect(page.locator(".tree-row").first()).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("dates");
  await expect(bar(page).getByRole("status")).toHaveText(/^1,000 found up to event/);
  expect(await found(page).count()).toBeLessThan(50);
  await bar(page).getByRole("button", { name: "Look further" }).click();
  await expect(bar(page).getByRole("status")).toHaveText(/^2,000 found up to event/);
  expect(await page.evaluate(() => document.querySelectorAll("*").length)).toBeLessThan(3_000);
});

test("what is found is text", async ({ page, stage }) => {
  await stage.start(`[[step]]\ncontent = ${JSON.stringify(HOSTILE)}\n`);
  const agent = stage.file("agent.toml", 'name = "a"\ninstructions = "Work."\n');
  const id = await stage.submit(agent, "Say it.", "--wait");
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.locator(".tree-row").first()).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("harmed=1");
  await expect(found(page).first()).toContainText("<img src=x");
  await expect(page.locator("#root script, #root img[src='x']")).toHaveCount(0);
  expect(await page.evaluate(() => Reflect.get(window, "harmed"))).toBeUndefined();
});
