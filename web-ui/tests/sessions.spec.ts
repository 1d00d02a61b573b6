import { expect } from "@playwright/test";
import { test } from "./stage.ts";
import { AGENT, HELLO, pushing } from "./stories.ts";

/** A story for each word: `push` waits for a person, the others are done at once. */
const BOTH = `${HELLO}
[[step]]
when = "push"
content = "I push it."
tool_calls = [{ name = "shell", arguments = { command = "git push" } }]
`;

test("the empty list teaches the first command, and fills by itself", async ({ page, stage }) => {
  await stage.start(HELLO);
  await page.goto(stage.url);
  await expect(page.getByRole("heading", { name: "No session yet." })).toBeVisible();
  await expect(page.getByText('stepwell submit "Say hello"')).toBeVisible();
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Greet me.");
  const line = page.locator(`[data-session="${id}"]`);
  await expect(line).toContainText("Greet me.");
  await expect(line).toContainText("completed");
});

test("what needs a person stands first, and the keyboard opens it", async ({ page, stage }) => {
  await stage.start(BOTH);
  const agent = stage.file("agent.toml", AGENT);
  const waits = await stage.submit(agent, "Please push.");
  await expect.poll(() => stage.cli("show", waits)).toContain("waiting_approval");
  await stage.submit(agent, "Greet one.", "--wait");
  await stage.submit(agent, "Greet two.", "--wait");
  await page.goto(stage.url);
  const lines = page.locator("[data-session]");
  await expect(lines).toHaveCount(3);
  await expect(page.getByRole("heading", { level: 2 })).toHaveText(["Needs a person 1", "Over 2"]);
  await expect(lines.first()).toContainText("Please push.");
  await expect(lines.first()).toContainText("waits for approval");
  await expect(lines.nth(1)).toContainText("Greet two.");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await expect(lines.first()).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(`${stage.url}/s/${waits}`);
  await page.goBack();
  await expect(lines).toHaveCount(3);
});

test("filters live in the address", async ({ page, stage }) => {
  await stage.start(BOTH);
  const agent = stage.file("agent.toml", AGENT);
  await stage.submit(agent, "Greet one.", "--wait", "--label", "team=web");
  await stage.submit(agent, "Greet two.", "--wait");
  await page.goto(stage.url);
  const lines = page.locator("[data-session]");
  await expect(lines).toHaveCount(2);
  await page.keyboard.press("/");
  await page.keyboard.type("two");
  await expect(lines).toHaveCount(1);
  await expect(page).toHaveURL(/\?text=two$/);
  await expect(page.getByText("stepwell ls --text two")).toBeVisible();
  await page.goto(`${stage.url}/?label=team%3Dweb`);
  await expect(lines).toHaveCount(1);
  await expect(lines.first()).toContainText("Greet one.");
  await page.getByLabel("Status").selectOption("failed");
  await expect(page.getByRole("heading", { name: "No session fits." })).toBeVisible();
  await page.getByRole("button", { name: "Show all" }).click();
  await expect(lines).toHaveCount(2);
});

test("a session is started from here, once", async ({ page, stage }) => {
  await stage.start(HELLO);
  await page.goto(`${stage.url}/new`);
  await expect(page.getByRole("heading", { name: "No agent is stored yet." })).toBeVisible();
  await stage.cli("agents", "put", stage.file("agent.toml", AGENT));
  await page.getByLabel("Task").fill("Greet me\nand go.");
  await page.getByLabel("Your name in the history").fill("ada");
  await expect(page.getByText("stepwell submit --agent coder 'Greet me and go.'")).toBeVisible();
  await page.keyboard.press("Control+Enter");
  await page.getByLabel("Task").press("Control+Enter");
  await expect(page).toHaveURL(/\/s\/[0-9A-Z]{26}$/);
  const rows = (await stage.cli("ls", "--json")).trim().split("\n");
  expect(rows).toHaveLength(1);
  expect(JSON.parse(rows[0] ?? "")).toMatchObject({ title: "Greet me" });
});

test("a server that goes away is named, and what was read stays", async ({ page, stage }) => {
  const id = await pushing(stage);
  await page.goto(stage.url);
  const line = page.locator(`[data-session="${id}"]`);
  await expect(line).toContainText("waits for approval");
  await stage.killServer();
  const alert = page.getByRole("alert");
  await expect(alert).toContainText("The server does not answer.", { timeout: 15_000 });
  await expect(alert).toContainText("What you see is from before.");
  await expect(line).toBeVisible();
  await stage.startServer();
  await expect(alert).toHaveCount(0, { timeout: 15_000 });
  await stage.cli("deny", id, "--by", "grace");
  await expect(line).toContainText("completed");
});

test("commands and keys are found by keyboard", async ({ page, stage }) => {
  await stage.start(HELLO);
  await page.goto(stage.url);
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keys" });
  await expect(help).toContainText("one event back in time");
  await page.keyboard.press("Escape");
  await expect(help).toHaveCount(0);
  await page.keyboard.press("Control+k");
  await page.keyboard.type("work");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(`${stage.url}/workers`);
  await expect(page.getByRole("heading", { name: "Workers" })).toBeVisible();
  await expect(page.getByRole("list", { name: "Tools" })).toContainText("shell");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("colours: dark");
  await page.keyboard.press("Enter");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});
