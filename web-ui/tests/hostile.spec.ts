import { expect } from "@playwright/test";
import { test } from "./stage.ts";
import { AGENT, HELLO, HOSTILE } from "./stories.ts";

test("what a model writes is text, never a part of the page", async ({ page, stage }) => {
  const command = JSON.stringify(`echo '${HOSTILE}'`);
  await stage.start(`
[[step]]
content = ${JSON.stringify(HOSTILE)}
tool_calls = [{ name = "shell", arguments = { command = ${command} } }]
`);
  const said: string[] = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(error.message));
  const id = await stage.submit(
    stage.file("agent.toml", AGENT),
    `Look: \u202e${HOSTILE}`,
    "--label",
    "x=<b>y</b>",
  );
  await page.goto(stage.url);
  await expect(page.locator(`[data-session="${id}"]`)).toContainText("<script>");
  await page.goto(`${stage.url}/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link").click();
  await expect(page.locator(".exact-text")).toContainText(HOSTILE);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.getByText("waits for approval").first()).toBeVisible();
  await expect(page).toHaveTitle(/^Look: <U\+202E><img/);
  await page.keyboard.press("f");
  await expect(page.getByRole("dialog", { name: "Fork Look: <U+202E><img" })).toBeVisible();
  for (const path of ["/", "/approvals", `/s/${id}`]) {
    await page.goto(stage.url + path);
    await expect(page.locator("#root > *")).toBeVisible();
    await expect(page.locator("#root script, #root img[src='x']")).toHaveCount(0);
    expect(await page.evaluate(() => Reflect.get(window, "harmed"))).toBeUndefined();
  }
  expect(said, "the content policy had nothing to stop").toEqual([]);
});

test("a script that came into the page would not run", async ({ page, stage }) => {
  await stage.start(HELLO);
  await page.goto(stage.url);
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.harmed = 1";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", `<img src="x" onerror="window.harmed = 1">`);
  });
  await page.waitForLoadState("networkidle");
  expect(await page.evaluate(() => Reflect.get(window, "harmed"))).toBeUndefined();
});
