// Every page empty, reading, full, failing, dark, narrow; into `test-results/shots`.

import type { Page } from "@playwright/test";
import { expect } from "@playwright/test";
import { test } from "../tests/stage.ts";
import { fill } from "./scene.ts";

const FOLDER = "test-results/shots";
const PAGES = ["sessions", "approvals", "agents", "workers", "new"] as const;

function path(page: (typeof PAGES)[number]): string {
  return page === "sessions" ? "/" : `/${page}`;
}

async function shoot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: `${FOLDER}/${name}.png` });
}

/** What is on the page came from the server, and no more is awaited. */
async function settled(page: Page): Promise<void> {
  await expect(page.locator("#root .loading")).toHaveCount(0);
}

test("empty, and while it is read", async ({ page, stage }) => {
  await stage.start(`[[step]]\ncontent = "Hello."\n`, ["--no-worker"]);
  for (const it of PAGES) {
    await page.goto(stage.url + path(it));
    await settled(page);
    await shoot(page, `${it}-empty`);
  }
  await page.route("**/stepwell.v1.*/*", () => new Promise(() => undefined));
  for (const it of PAGES) {
    await page.goto(stage.url + path(it));
    await page.locator("#root > *").waitFor();
    await shoot(page, `${it}-reading`);
  }
});

test("full, dark, narrow, failing", async ({ page, stage }) => {
  const scene = await fill(stage);
  await page.addInitScript(() => localStorage.setItem("stepwell.name", "ada"));
  const views = [
    ...PAGES.map((it) => [it, path(it)]),
    ["approval", `/approvals?id=${scene.approval}`],
  ];
  const everywhere = async (suffix: string) => {
    for (const [name, at] of views) {
      await page.goto(stage.url + at);
      await settled(page);
      await shoot(page, `${name}-${suffix}`);
    }
  };
  await everywhere("full");
  await page.setViewportSize({ width: 1920, height: 1080 });
  await everywhere("wide");
  await page.setViewportSize({ width: 390, height: 844 });
  await everywhere("narrow");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "dark" });
  await everywhere("dark");
  await page.keyboard.press("?");
  await shoot(page, "help-dark");
  await page.keyboard.press("Escape");
  await page.emulateMedia({ colorScheme: "light" });
  await page.keyboard.press("Control+k");
  await shoot(page, "palette-light");
  await page.keyboard.press("Escape");
  await page.goto(stage.url);
  await settled(page);
  await stage.killServer();
  await page.getByRole("alert").first().waitFor();
  await shoot(page, "sessions-failing");
  for (const it of ["Approvals", "Agents", "Workers"]) {
    await page.getByRole("navigation").getByRole("link", { name: it }).click();
    await page.getByRole("alert").first().waitFor();
    await shoot(page, `${it.toLowerCase()}-failing`);
  }
});
