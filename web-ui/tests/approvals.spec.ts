import { expect } from "@playwright/test";
import { test } from "./stage.ts";
import { AGENT, PUSH, pushing } from "./stories.ts";

test("approve by keyboard only", async ({ page, stage }) => {
  const id = await pushing(stage);
  await page.goto(`${stage.url}/approvals`);
  await expect(
    page.getByRole("list", { name: "Open approvals" }).getByRole("listitem"),
  ).toHaveCount(1);
  await page.keyboard.press("j");
  const card = page.getByRole("article");
  await expect(card).toContainText("echo pushed > pushed.txt");
  // Nothing that says yes has the focus, and what people press without reading says nothing.
  for (const key of ["Enter", "Escape", "Enter", "Space"]) await page.keyboard.press(key);
  await expect(card.getByRole("heading", { name: "May shell run?" })).toBeFocused();
  const button = card.getByRole("button", { name: "Run `echo pushed > pushed.txt`" });
  await expect(button).toBeDisabled();
  await page.keyboard.press("Tab");
  await expect(card.locator(".exact-text")).toBeFocused();
  while (
    !(await card
      .getByLabel("Your name in the history")
      .evaluate((it) => it === document.activeElement))
  ) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.type("ada");
  await expect(button).toBeEnabled();
  for (let at = 0; at < 4; at += 1) await page.keyboard.press("Tab");
  await expect(button).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(button).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(card.getByRole("status").last()).toContainText("Approved by ada");
  await expect.poll(() => stage.cli("show", id)).toContain("completed");
});

test("deny by keyboard only, with a reason that the model is told", async ({ page, stage }) => {
  const id = await pushing(stage);
  await page.goto(`${stage.url}/approvals`);
  await expect(page.getByRole("list", { name: "Open approvals" }).getByRole("link")).toBeVisible();
  await page.keyboard.press("a");
  const card = page.getByRole("article");
  await expect(card).toBeVisible();
  await page.keyboard.press("a");
  const name = card.getByLabel("Your name in the history");
  // Nothing is sent without a name: a press leads to where it is asked for.
  await card.getByRole("button", { name: "Deny…" }).press("Enter");
  await expect(name).toBeFocused();
  await expect(name).toHaveAccessibleDescription("Say who you are first: the history keeps it.");
  while (!(await name.evaluate((it) => it === document.activeElement)))
    await page.keyboard.press("Tab");
  await page.keyboard.type("ada");
  await page.keyboard.press("Tab");
  await expect(card.getByRole("button", { name: "Deny…" })).toBeFocused();
  await page.keyboard.press("Enter");
  await page.keyboard.type("Not on a Fri");
  // Esc leaves the field and nothing else, the field of the name as well.
  const reason = card.getByLabel(/^Why not/);
  for (const field of [name, reason]) {
    await field.focus();
    await page.keyboard.press("Escape");
    await expect(card).toBeFocused();
  }
  await expect(name).toHaveValue("ada");
  await expect(reason).toHaveValue("Not on a Fri");
  await reason.fill("Not on a Sunday.");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await expect(card.getByRole("button", { name: "Deny it" })).toBeFocused();
  await expect(card.getByRole("button", { name: "Deny it" })).toBeEnabled();
  await page.keyboard.press("Enter");
  await expect(card.getByRole("status").last()).toContainText("Denied by ada");
  await expect(card).toContainText("Not on a Sunday.");
  await expect.poll(() => stage.cli("events", id)).toContain("Not on a Sunday.");
});

test("edit and approve: it runs with what was written, and only with that", async ({
  page,
  stage,
}) => {
  const id = await pushing(stage);
  await page.goto(`${stage.url}/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link").click();
  const card = page.getByRole("article");
  await card.getByLabel("Your name in the history").fill("ada");
  await card.getByRole("button", { name: "Change the arguments…" }).click();
  const field = card.getByLabel(/Arguments/);
  const button = card.getByRole("button", { name: "Run shell with these arguments" });
  await field.fill("{");
  await expect(button).toBeDisabled();
  await field.fill('{"comand": "echo edited"}');
  await button.click();
  await expect(card.getByRole("alert")).toContainText("The approval is still open");
  await field.fill('{"command": "echo edited"}');
  await button.click();
  await expect(card.getByRole("status").last()).toContainText("Approved by ada");
  await expect.poll(() => stage.cli("show", id)).toContain("completed");
  expect(await stage.cli("events", id)).toContain("edited");
});

test("somebody else was faster", async ({ page, stage }) => {
  const id = await pushing(stage);
  await page.goto(`${stage.url}/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link").click();
  const card = page.getByRole("article");
  await card.getByLabel("Your name in the history").fill("ada");
  // The page must not hear of it before the button is pressed.
  await page.route("**/ListApprovals", (route) => route.abort());
  await stage.cli("deny", id, "--by", "grace", "--reason", "I know better.");
  await card.getByRole("button", { name: /^Run `echo/ }).click();
  await expect(card.getByRole("alert")).toContainText("grace");
  await page.unroute("**/ListApprovals");
  await expect(card.getByRole("status").last()).toContainText("Denied by grace");
  await expect(card.getByRole("alert")).toContainText("came too late");
  await expect(card.getByRole("button", { name: /^Run/ })).toHaveCount(0);
  await expect(card.getByRole("status").last()).toBeFocused();
});

test("allowed for the session, the tool is not asked about again", async ({ page, stage }) => {
  await stage.start(`
[[step]]
repeat = 2
tool_calls = [{ name = "shell", arguments = { command = "echo {{step}}" } }]

[[step]]
step = 3
content = "Done."
`);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Push twice.");
  await page.goto(`${stage.url}/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link").click();
  const card = page.getByRole("article");
  await card.getByLabel("Your name in the history").fill("ada");
  await card.getByRole("button", { name: "Allow shell for this session" }).click();
  await expect(card.getByRole("status").last()).toContainText("later calls of this tool");
  await expect.poll(() => stage.cli("show", id)).toContain("completed");
  await expect(page.getByRole("heading", { name: "Nothing waits for you" })).toBeVisible();
});

test("what became of a call that nobody knows of is asked and answered", async ({
  page,
  stage,
}) => {
  await stage.start(`
[[step]]
tool_calls = [{ name = "shell", arguments = { command = "sleep 600" } }]

[[step]]
content = "Done."
`);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Push and crash.");
  await expect.poll(() => stage.cli("show", id)).toContain("waiting_approval");
  await stage.cli("approve", id, "--yes", "--by", "grace");
  await expect.poll(() => stage.cli("events", id)).toContain("tool_dispatched");
  await stage.killServer();
  await stage.startServer();
  await page.goto(`${stage.url}/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link").click();
  const card = page.getByRole("article");
  await expect(card.getByRole("heading")).toContainText("its outcome is unknown");
  await card.getByLabel("Your name in the history").fill("ada");
  await card.getByRole("button", { name: "It happened…" }).click();
  await card.getByLabel(/What it gave back/).fill("pushed, as the remote shows");
  await card.getByRole("button", { name: "Record that it happened" }).click();
  await expect(card.getByRole("status").last()).toContainText("Answered by ada");
  await expect.poll(() => stage.cli("show", id)).toContain("completed");
  expect(await stage.cli("events", id)).toContain("pushed, as the remote shows");
});

test("an edit is shown as a diff, and hidden characters are named", async ({ page, stage }) => {
  await stage.start(`
[[step]]
content = "I mend it."

[[step.tool_calls]]
name = "edit_file"
arguments = { path = "dates.py", old_text = "a\\nday, month\\nb\\n", new_text = "a\\nmonth, day\\u202e\\nb\\n" }
`);
  await stage.submit(stage.file("agent.toml", AGENT), "Mend it.");
  await page.goto(`${stage.url}/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link").click();
  const card = page.getByRole("article");
  await expect(card.locator(".diff-removed")).toHaveText("− day, month");
  await expect(card.locator(".diff-added")).toHaveText("+ month, day<U+202E>");
  await expect(card).toContainText("1 hidden or controlling character");
  await expect(card.getByRole("button", { name: "Edit `dates.py`" })).toBeVisible();
});

test("the inbox names the sessions, and what expires next comes first", async ({ page, stage }) => {
  await stage.start(PUSH);
  const agent = (hours: number) =>
    stage.file(`${hours}.toml`, `${AGENT}\n[approval]\nexpires_after = "${hours}h"\n`);
  for (const hours of [2, 1, 3]) {
    const id = await stage.submit(agent(hours), `Push within ${hours} h.`);
    await expect.poll(() => stage.cli("show", id)).toContain("waiting_approval");
  }
  await page.goto(`${stage.url}/approvals`);
  const lines = page.getByRole("list", { name: "Open approvals" }).getByRole("listitem");
  await expect(lines.locator(".inbox-session")).toHaveText([
    "Push within 1 h.",
    "Push within 2 h.",
    "Push within 3 h.",
  ]);
  await expect(lines.first()).toContainText("Run `echo pushed > pushed.txt`");
  const link = (at: number) => lines.nth(at).getByRole("link");
  await page.keyboard.press("j");
  await expect(link(0)).toHaveAttribute("aria-current", "true");
  await expect(link(0)).toBeFocused();
  await page.keyboard.press("j");
  await expect(link(1)).toBeFocused();
  const card = page.getByRole("article");
  await page.keyboard.press("Enter");
  await expect(card.getByRole("heading", { name: "May shell run?" })).toBeFocused();
  // Once it is answered, the key that reviews brings the next that waits.
  await card.getByLabel("Your name in the history").fill("ada");
  await card.getByRole("button", { name: /^Run `echo/ }).click();
  await expect(card.getByRole("status").last()).toContainText("Approved by ada");
  await expect(card.getByRole("status").last()).toBeFocused();
  await expect(lines).toHaveCount(2);
  await page.keyboard.press("a");
  await expect(link(0)).toBeFocused();
  await expect(card.getByRole("button", { name: /^Run `echo/ })).toBeVisible();
});
