// The session page in every state, and two sessions side by side; into `test-results/shots`.

import { expect, type Page } from "@playwright/test";
import { longSession } from "../tests/long-session.ts";
import { test } from "../tests/stage.ts";
import { HOSTILE } from "../tests/stories.ts";
import { fill } from "./scene.ts";

const FOLDER = "test-results/shots";

async function shoot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: `${FOLDER}/session-${name}.png` });
}

/** What is on the page came from the server, and no more is awaited. */
async function open(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await settled(page);
}

async function settled(page: Page): Promise<void> {
  await expect(page.locator(".session, .compare").first()).toBeVisible();
  await expect(page.locator("#root .loading, .message.is-unread, .tree-row.is-unread")).toHaveCount(
    0,
  );
}

test("waiting, past, forked, compared, dark, narrow", async ({ page, stage }) => {
  const { edited } = await fill(stage);
  await page.addInitScript(() => localStorage.setItem("stepwell.name", "ada"));
  const at = `${stage.url}/s/${edited}`;
  await open(page, at);
  await shoot(page, "waiting");
  await page.keyboard.press("a");
  await shoot(page, "review");
  await open(page, `${at}@6`);
  await shoot(page, "past");
  await page.keyboard.press("f");
  await page.getByRole("button", { name: "Change something" }).click();
  await shoot(page, "fork");
  await page.keyboard.press("Escape");
  await open(page, at);
  await page.getByRole("button", { name: "Replay" }).click();
  await expect(page.getByRole("dialog").getByText("The same:")).toBeVisible();
  await shoot(page, "replay");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "assistant" }).first().click();
  await settled(page);
  await shoot(page, "model-call");
  await page.getByRole("tab", { name: "Prompt" }).click();
  await settled(page);
  await shoot(page, "prompt");
  await page.getByRole("tab", { name: "Events" }).click();
  await shoot(page, "events");
  const said = await stage.cli("fork", edited, "--at", "2", "--reply", "1=I do nothing.", "--json");
  const other = said.match(/[0-9A-Z]{26}/g)?.find((it) => it !== edited) ?? "none";
  await open(page, `${stage.url}/s/${other}`);
  await page.getByRole("treegrid").focus();
  await page.keyboard.press("Home");
  await settled(page);
  await shoot(page, "lineage");
  await open(page, `${stage.url}/compare/${edited}/${other}`);
  await shoot(page, "compare");
  for (const [name, width, height] of [
    ["wide", 1920, 1080],
    ["phone", 390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    await open(page, at);
    await shoot(page, name);
  }
  for (const tab of ["Steps", "Details"]) {
    await page.getByRole("tab", { name: tab, exact: true }).click();
    await shoot(page, `phone-${tab.toLowerCase()}`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "dark" });
  await open(page, at);
  await shoot(page, "dark");
  await open(page, `${at}@6`);
  await shoot(page, "dark-past");
});

test("reading, failing, long, hostile, live", async ({ page, stage }) => {
  await stage.start(`
chunk_delay_ms = 40

[[step]]
when = "Hostile"
content = ${JSON.stringify(HOSTILE)}

[[step]]
when = "Break"
fault = { kind = "status", status = 400, message = "this model takes no tools", times = "always" }

[[step]]
when = "Again"
content = "Now it works."
fault = { kind = "status", status = 503, message = "too much to do", times = 1 }

[[step]]
when = "Slow"
content = ${JSON.stringify("The month and the day are swapped in every service. ".repeat(60))}
`);
  const agent = stage.file("agent.toml", `name = "coder"\ninstructions = "Work."\n`);
  const long = await longSession(stage, 100_000);
  await open(page, `${stage.url}/s/${long.id}`);
  await shoot(page, "long");
  await page.keyboard.press("/");
  await page.keyboard.type("not on a friday");
  await page.keyboard.press("Enter");
  await expect(page.locator(".find-count")).toHaveText(/^1 of \d+$/);
  await settled(page);
  await shoot(page, "find");
  await page.keyboard.type(" at all");
  await expect(page.locator(".find-count")).toHaveText("nowhere in this session");
  await shoot(page, "find-nothing");
  await open(page, `${stage.url}/s/${long.id}@40000`);
  await shoot(page, "long-past");
  const hostile = await stage.submit(agent, `Hostile: ${HOSTILE}`, "--wait=end");
  await open(page, `${stage.url}/s/${hostile}`);
  await shoot(page, "hostile");
  const broken = await stage.submit(agent, "Break it", "--wait=end").catch(() => "");
  const failed = broken === "" ? await lastId(stage) : broken;
  await open(page, `${stage.url}/s/${failed}`);
  await shoot(page, "failed");
  const again = await stage.submit(agent, "Again, until it works", "--wait=end");
  await open(page, `${stage.url}/s/${again}`);
  await shoot(page, "retried");
  await page.locator('[id="span-model:1"]').click();
  await page.keyboard.press("l");
  await expect(page.locator(".tree-row").filter({ hasText: "attempt" })).toHaveCount(2);
  await shoot(page, "retried-unfolded");
  const slow = await stage.submit(agent, "Slow, please");
  await open(page, `${stage.url}/s/${slow}`);
  await expect(page.locator(".is-growing")).toContainText("swapped in every service");
  await shoot(page, "live");
  await stage.killServer();
  await expect(page.locator(".scrubber-live")).toContainText("connection lost");
  await shoot(page, "broken");
  await page.goto("about:blank");
  await stage.startServer();
  await page.goto(`${stage.url}/s/ZZZZZZZZ`);
  await expect(page.getByRole("alert")).toBeVisible();
  await shoot(page, "unknown");
  await page.route("**/stepwell.v1.*/*", () => new Promise(() => undefined));
  await page.goto(`${stage.url}/s/${hostile}`);
  await page.locator(".session").waitFor();
  await shoot(page, "reading");
});

async function lastId(stage: { cli: (...words: string[]) => Promise<string> }): Promise<string> {
  const [line = ""] = (await stage.cli("ls", "--json", "--limit", "1")).split("\n");
  return (JSON.parse(line) as { session_id: string }).session_id;
}
