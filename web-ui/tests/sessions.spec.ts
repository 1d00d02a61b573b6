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

test("the empty list teaches a first command that works, and fills by itself", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  await page.goto(stage.url);
  await expect(page.getByRole("heading", { name: "No session yet." })).toBeVisible();
  const command = page.locator(".empty .cli-line code");
  await stage.shell((await command.textContent()) ?? "");
  const line = page.locator("[data-session]");
  await expect(line).toContainText("Say hello");
  await expect(line).toContainText("completed");
  await page.goto(`${stage.url}/new`);
  const taught = (await command.textContent()) ?? "";
  await page.goto(`${stage.url}/agents`);
  await expect(command).toHaveText(taught);
  await stage.shell(taught);
  await expect(command).toHaveCount(0);
  await expect(page.getByRole("link", { name: "hello" })).toBeVisible();
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
  // What it asks stands before the sentence, so that it is not what is cut.
  await expect(lines.first().locator(".session-why")).toHaveText(/^Run `git push` ?waits for/);
  await expect(lines.nth(1)).toContainText("Greet two.");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await expect(lines.first()).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(`${stage.url}/s/${waits}`);
  await page.goBack();
  await expect(lines).toHaveCount(3);
  await expect(lines.first()).toHaveAttribute("aria-selected", "true");
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

test("a label adds to the filters, and what is no filter is said", async ({ page, stage }) => {
  await stage.start(BOTH);
  const agent = stage.file("agent.toml", AGENT);
  const labels = ["--label", "team=web", "--label", "env=prod"];
  await stage.submit(agent, "Greet one.", "--wait", ...labels);
  await stage.submit(agent, "Greet two.", "--wait", "--label", "team=web");
  await stage.submit(agent, "Please push.", "--label", "team=web");
  await page.goto(`${stage.url}/?status=completed`);
  const lines = page.locator("[data-session]");
  await expect(lines).toHaveCount(2);
  await lines.first().getByRole("link", { name: "team=web" }).click();
  await expect(page).toHaveURL(/\?status=completed&label=team%3Dweb$/);
  await expect(lines).toHaveCount(2);
  const field = page.getByLabel("Label");
  await field.fill("bogus");
  await field.press("Enter");
  await expect(page.getByRole("alert")).toContainText("written key=value, for example team=core");
  await expect(page).toHaveURL(/\?status=completed&label=team%3Dweb$/);
  await field.fill("env=prod");
  await field.press("Enter");
  await expect(lines).toHaveCount(1);
  await expect(page.getByRole("alert")).toHaveCount(0);
  await expect(page).toHaveURL(/&label=team%3Dweb&label=env%3Dprod$/);
  await expect(
    page.getByText("stepwell ls --status completed --label team=web --label env=prod"),
  ).toBeVisible();
  await page.getByRole("button", { name: "not only env=prod" }).click();
  await expect(lines).toHaveCount(2);
  for (const [search, words] of [
    ["label=bogus", "“bogus” is no label"],
    ["status=bogus", "“bogus” is no status"],
    ["staus=failed", "“staus” narrows nothing"],
  ]) {
    await page.goto(`${stage.url}/?${search}`);
    await expect(page.getByRole("alert")).toContainText(words ?? "");
    await expect(lines).toHaveCount(0);
    await page.getByRole("link", { name: "show all sessions" }).click();
    await expect(lines).toHaveCount(3);
  }
});

test("back and forward find the list as it was left", async ({ page, stage }) => {
  await stage.start(HELLO);
  const agent = stage.file("agent.toml", AGENT);
  await stage.submit(agent, "task 0", "--wait");
  // More than one page of rows, and without waiting for each.
  for (let at = 1; at < 130; at += 10) {
    const some = Array.from({ length: 10 }, (_, more) => `task ${at + more}`);
    await Promise.all(some.map((task) => stage.submit(agent, task)));
  }
  await page.goto(`${stage.url}/?status=completed`);
  const grid = page.getByRole("grid", { name: "Sessions" });
  const top = () => grid.evaluate((it) => it.scrollTop);
  await grid.hover();
  const end = () => grid.evaluate((it) => it.scrollHeight);
  await expect
    .poll(async () => {
      await page.mouse.wheel(0, 2_000);
      return end();
    })
    .toBeGreaterThan(120 * 32);
  await page.mouse.wheel(0, -640);
  await expect.poll(top).toBeGreaterThan(2_000);
  // The whole line opens it, not the title alone.
  const box = await grid.boundingBox();
  const [x, y] = [(box?.x ?? 0) + (box?.width ?? 0) - 200, (box?.y ?? 0) + 300];
  await page.mouse.move(x, y);
  let before = -1;
  await expect
    .poll(async () => {
      const last = before;
      before = await top();
      return before === last;
    })
    .toBe(true);
  await page.mouse.click(x, y);
  await expect(page).toHaveURL(/\/s\/[0-9A-Z]{26}$/);
  const id = page.url().split("/").at(-1) ?? "";
  const expectPlace = async () => {
    await expect(page.locator(`[data-session="${id}"]`)).toHaveAttribute("aria-selected", "true");
    await expect(page.locator(`[data-session="${id}"]`)).toBeInViewport();
    await expect(grid).toBeFocused();
    await expect(grid).toHaveAttribute("aria-activedescendant", `session-${id}`);
    await expect.poll(top).toBe(before);
  };
  await page.goBack();
  await expectPlace();
  // Another way there is another place.
  await page.getByRole("link", { name: "Agents" }).click();
  await page.getByRole("link", { name: "Sessions" }).click();
  await expect(page.locator("[data-session]").first()).toBeVisible();
  expect(await top()).toBe(0);
  await page.goBack();
  await page.goBack();
  await expectPlace();
  await page.goForward();
  await page.goForward();
  await expect(page.locator("[data-session]").first()).toBeVisible();
  expect(await top()).toBe(0);
});

test("the chosen row is said to who hears the page", async ({ page, stage }) => {
  await stage.start(HELLO);
  const agent = stage.file("agent.toml", AGENT);
  const first = await stage.submit(agent, "Greet one.", "--wait");
  const second = await stage.submit(agent, "Greet two.", "--wait");
  await page.goto(stage.url);
  const grid = page.getByRole("grid", { name: "Sessions" });
  await expect(page.locator("[data-session]")).toHaveCount(2);
  await page.keyboard.press("j");
  await expect(grid).toBeFocused();
  await expect(grid).toHaveAttribute("aria-activedescendant", `session-${second}`);
  await page.keyboard.press("End");
  await expect(grid).toHaveAttribute("aria-activedescendant", `session-${first}`);
  // What lies over the page gives the focus back.
  for (const key of ["?", "Control+k"]) {
    await page.keyboard.press(key);
    await expect(page.getByRole("dialog")).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(grid).toBeFocused();
  }
  await page.keyboard.press("/");
  await expect(page.getByLabel("Find in titles")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(grid).toBeFocused();
});

test("an address where nothing is says so, and stays an error for programs", async ({
  page,
  stage,
}) => {
  await stage.start(HELLO);
  for (const path of ["/nope", "/s/", "/compare/a"]) {
    const answer = await page.goto(`${stage.url}${path}`);
    expect(answer?.status()).toBe(404);
    await expect(
      page.getByRole("heading", { name: "There is nothing at this address." }),
    ).toBeVisible();
    await expect(page.getByRole("link", { name: "Sessions" })).toBeVisible();
  }
  for (const path of ["/nope", "/v1/nope", "/assets/nope.js"]) {
    const answer = await page.request.get(`${stage.url}${path}`);
    expect(answer.status()).toBe(404);
    expect(await answer.json()).toMatchObject({ error: { code: "NOT_FOUND" } });
  }
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
