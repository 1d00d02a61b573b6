import { expect, type Page } from "@playwright/test";
import { test } from "./stage.ts";
import { approved, waiting } from "./stories.ts";

/** More than a browser has connections to one address over HTTP/1.1. */
const TABS = 9;

/** What the browser does to a tab that another one covers. */
async function cover(page: Page, state: "hidden" | "visible"): Promise<void> {
  await page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
}

const live = (page: Page) => page.locator(".scrubber-live");
const said = (page: Page) => page.getByRole("log", { name: "Conversation" }).getByRole("article");

test("tabs that nobody looks at leave their connection to the others", async ({ page, stage }) => {
  const id = await waiting(stage);
  const url = `${stage.url}/s/${id}`;
  const tabs = [page];
  for (let at = 1; at < TABS; at += 1) tabs.push(await page.context().newPage());
  for (const tab of tabs) {
    await tab.goto(url);
    await expect(live(tab)).toHaveText("live");
    await cover(tab, "hidden");
  }
  await approved(stage, id);
  const events = (await stage.cli("events", id)).trim().split("\n").length;
  // Whoever looks again has missed nothing, and has nothing twice.
  for (const tab of [page, tabs[TABS - 1] ?? page]) {
    await expect(said(tab).last()).toContainText("I push it.");
    await cover(tab, "visible");
    await expect(said(tab).last()).toContainText("Done.");
    await expect(live(tab)).toHaveText("the end");
    const slider = tab.getByRole("slider", { name: "Moment of the session" });
    await expect(slider).toHaveAttribute("aria-valuemax", `${events}`);
  }
});
