// What is on the screen is named by the moment it belongs to, whatever the network does.

import { expect, type Page } from "@playwright/test";
import { test } from "./stage.ts";
import { AGENT, completed, waiting } from "./stories.ts";

const past = (page: Page) => page.getByLabel("The past");
const status = (page: Page) => page.locator(".session-head .status");
const slider = (page: Page) => page.getByRole("slider", { name: "Moment of the session" });
const said = (page: Page) => page.getByRole("log", { name: "Conversation" }).getByRole("article");

/** Asks for another moment, which is not there before what is given back was called. */
async function goingTo(page: Page, seq: number): Promise<() => void> {
  let open = () => {};
  const gate = new Promise<void>((done) => {
    open = done;
  });
  await page.route("**/GetState", async (route) => {
    await gate;
    await route.continue();
  });
  await page.keyboard.press("g");
  await page.getByLabel(/Event, 1 to/).fill(String(seq));
  await page.keyboard.press("Enter");
  return open;
}

test("while another moment is read, the one that is shown keeps its name", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}@2`);
  await expect(past(page)).toContainText("event 2 of");
  await expect(status(page)).toHaveText("asks the model");
  const open = await goingTo(page, 3);
  await expect(page.getByLabel("Reading")).toContainText(
    "Reading event 3 … What you see is event 2.",
  );
  await expect(past(page)).toContainText("event 2 of");
  await expect(status(page)).toHaveText("asks the model");
  await expect(page.locator(".session-moment")).toHaveAttribute("aria-busy", "true");
  await expect(page.getByRole("row")).toHaveCount(3);
  open();
  await expect(past(page)).toContainText("event 3 of");
  await expect(page.getByLabel("Reading")).toHaveCount(0);
  await expect(status(page)).toHaveText("runs tools");
  await expect(past(page)).toContainText("`shell` (call 1.1) is about to be decided");
});

test("what is chosen while another moment is read is of the old one, and goes with it", async ({
  page,
  stage,
}) => {
  const id = await completed(stage);
  const chosen = page.getByRole("row", { selected: true });
  await page.goto(`${stage.url}/s/${id}@3`);
  await expect(past(page)).toContainText("event 3 of");
  const atThree = await chosen.getAttribute("id");
  await page.goto(`${stage.url}/s/${id}@8`);
  await expect(past(page)).toContainText("event 8 of");
  const open = await goingTo(page, 3);
  await expect(page.getByLabel("Reading")).toContainText("Reading event 3");
  await page.keyboard.press("Home");
  await expect(chosen).not.toHaveAttribute("id", atThree ?? "");
  open();
  await expect(past(page)).toContainText("event 3 of");
  await expect(chosen).toHaveAttribute("id", atThree ?? "");
  await expect(page.locator(".inspector-facts").first()).not.toContainText(/events.*[4-9]/);
});

test("a moment that cannot be read leaves what was read, and is tried again", async ({
  page,
  stage,
}) => {
  const id = await completed(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(said(page).last()).toContainText("Done.");
  await expect(page.locator(".scrubber-live")).toHaveText("the end");
  // An error of what is in between.
  await page.route("**/GetState", (route) => route.fulfill({ status: 500, body: "no" }));
  await slider(page).press("ArrowLeft");
  const alert = page.locator(".notices").getByRole("alert");
  await expect(alert).toContainText(/Could not read event \d+/);
  await expect(alert).toContainText("What you see is the newest that was read.");
  await expect(past(page)).toHaveCount(0);
  await expect(said(page).last()).toContainText("Done.");
  await expect(alert.getByRole("button", { name: "Try again" })).toBeVisible();
  await page.unroute("**/GetState");
  await expect(past(page)).toBeVisible();
  await expect(alert).toHaveCount(0);
});

test("a server that is away takes nothing from the page, and is asked again when it is back", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.locator(".scrubber-live")).toHaveText("live");
  await stage.killServer();
  const lost = page.getByLabel("No connection");
  await expect(lost.getByRole("status")).toContainText(
    /No connection to the server since \d\d:\d\d:\d\d\. What you see was read before and stays/,
  );
  await slider(page).press("Home");
  await expect(page.locator(".scrubber-live")).toContainText("connection lost");
  const alert = page.locator(".notices").getByRole("alert");
  await expect(alert).toContainText("Could not read event 1");
  await expect(alert).toContainText("What you see is the newest that was read.");
  await expect(said(page).last()).toContainText("I push it.");
  await stage.startServer();
  await expect(past(page)).toContainText("event 1 of");
  await expect(alert).toHaveCount(0);
  await expect(lost).toHaveCount(0);
});

test("what a tool said before the server died stays for who is asked what became of it", async ({
  page,
  stage,
}) => {
  await stage.start(`
[[step]]
tool_calls = [{ name = "shell", arguments = { command = "echo line 1; sleep 600" } }]

[[step]]
content = "Done."
`);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Work and crash.");
  await expect.poll(() => stage.cli("show", id)).toContain("waiting_approval");
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.locator(".scrubber-live")).toHaveText("live");
  await stage.cli("approve", id, "--by", "ada");
  const now = page.getByLabel("Under way");
  await expect(now.getByLabel("output so far", { exact: true })).toHaveText("line 1");
  await stage.killServer();
  await expect(now).toContainText("until the connection broke:");
  await expect(now).toContainText("line 1");
  await stage.startServer();
  await expect(page.getByLabel("Why it waits")).toContainText("what became of `shell`");
  await expect(now).toContainText("line 1");
});

test("Back takes back a jump in time, and steps are none", async ({ page, stage }) => {
  const id = await completed(stage);
  const at = (seq: string) => `${stage.url}/s/${id}${seq}`;
  await page.goto(stage.url);
  await page.locator(`[data-session="${id}"]`).getByRole("link").first().click();
  await expect(page.locator(".scrubber-live")).toHaveText("the end");
  // A click into the strip, steps, a number, and back to now.
  await slider(page).click({ position: { x: 2, y: 8 } });
  await expect(page).toHaveURL(at("@1"));
  await page.keyboard.press("]");
  await page.keyboard.press("]");
  await page.keyboard.press("g");
  await page.getByLabel(/Event, 1 to/).fill("6");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(at("@6"));
  await page.keyboard.press(".");
  await expect(page).toHaveURL(at(""));
  for (const seq of ["@6", "@3", ""]) {
    await page.goBack();
    await expect(page).toHaveURL(at(seq));
    const words = seq === "" ? 0 : 1;
    await expect(past(page)).toHaveCount(words);
    if (seq !== "") await expect(past(page)).toContainText(`event ${seq.slice(1)} of`);
  }
  await page.goForward();
  await expect(past(page)).toContainText("event 3 of");
  await page.goBack();
  await page.goBack();
  await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
});

test("zeros before the number of a moment say nothing, and are taken out of the address", async ({
  page,
  stage,
}) => {
  const id = await completed(stage);
  await page.goto(`${stage.url}/s/${id}@0003`);
  await expect(page).toHaveURL(`${stage.url}/s/${id}@3`);
  await expect(past(page)).toContainText("event 3 of");
});

test("the focus goes back to where it was when something closes", async ({ page, stage }) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  const steps = page.getByRole("treegrid", { name: "Steps" });
  await steps.focus();
  await page.keyboard.press("/");
  await expect(page.getByRole("search")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(steps).toBeFocused();
  await page.keyboard.press("ControlOrMeta+k");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(steps).toBeFocused();
  await page.keyboard.press("ControlOrMeta+k");
  await page.getByRole("option", { name: /One event back/ }).click();
  await expect(past(page)).toBeVisible();
  await expect(steps).toBeFocused();
});
