// What waits for a person on a session's page: nobody decides what they did not mean to.

import { expect, type Page } from "@playwright/test";
import { type Stage, test } from "./stage.ts";
import { AGENT, waiting } from "./stories.ts";

/** How long each press and each pause of a slow double click takes. */
const PRESS_MS = 120;

const THREE = `
[[step]]
tool_calls = [
  { name = "shell", arguments = { command = "echo a > a.txt" } },
  { name = "shell", arguments = { command = "echo b > b.txt" } },
  { name = "shell", arguments = { command = "echo c > c.txt" } },
]

[[step]]
content = "Done."
`;

const ASK = `
[[step]]
content = "I need to know."
tool_calls = [{ name = "ask_user", arguments = { question = "Which of the two folders?\\nThe old one has <b>more</b>." } }]

[[step]]
content = "Thanks."
`;

const ASKER = `
name = "asker"
instructions = "Ask."
tools = ["ask_user"]
`;

async function named(page: Page, stage: Stage): Promise<void> {
  await page.goto(stage.url);
  await page.evaluate(() => localStorage.setItem("stepwell.name", "ada"));
}

async function until(stage: Stage, id: string, words: string): Promise<void> {
  await expect.poll(() => stage.cli("show", id)).toContain(words);
}

/** A session that asks for three things at once. */
async function threeWaiting(stage: Stage): Promise<string> {
  await stage.start(THREE);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Three things.");
  await until(stage, id, "waiting_approval");
  return id;
}

async function decided(stage: Stage, id: string): Promise<number> {
  const events = await stage.cli("events", id);
  return events.split("\n").filter((it) => it.includes("approval_decided")).length;
}

/** As a hand does it: where the first click was, whatever is there by then. */
async function doubleClick(page: Page, name: RegExp | string): Promise<void> {
  const button = page.getByRole("button", { name });
  await expect(button).toBeEnabled();
  const box = await button.boundingBox();
  if (box === null) throw new Error(`no button ${name}`);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.click(x, y, { clickCount: 2, delay: PRESS_MS });
}

test("a double click decides one action, and its outcome stays until the person goes on", async ({
  page,
  stage,
}) => {
  const id = await threeWaiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Review" }).click();
  const card = page.locator(".review").getByRole("article");
  await expect(card).toHaveCount(1);
  await card.getByLabel("Your name in the history").fill("ada");
  await expect(page.locator(".review")).toContainText("1 of 3 that wait for you");
  await doubleClick(page, "Run `echo a > a.txt`");
  await expect(card.locator(".approval-outcome")).toContainText("Approved by ada");
  await expect(card).toContainText("echo a > a.txt");
  expect(await decided(stage, id)).toBe(1);
  // The next one comes when it is asked for, and not under a click that was begun before.
  await page.getByRole("button", { name: "Next: Run `echo b > b.txt`" }).click();
  await expect(card.getByRole("heading", { name: "May shell run?" })).toBeFocused();
  await expect(card.getByLabel("Your name in the history")).toHaveValue("ada");
  await expect(card.getByRole("button", { name: "Run `echo b > b.txt`" })).toBeEnabled();
  expect(await decided(stage, id)).toBe(1);
  await page.keyboard.press("Escape");
  await expect(page.locator(".review")).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Review" })).toBeFocused();
});

test("an action that has just come up takes no click and no key", async ({ page, stage }) => {
  const id = await threeWaiting(stage);
  await named(page, stage);
  for (const inInbox of [false, true]) {
    await page.goto(inInbox ? `${stage.url}/approvals` : `${stage.url}/s/${id}`);
    await expect(page.locator(".inbox, .notice").first()).toBeVisible();
    // In one go with what brings it up: no hand is as fast, but a click that was begun may be.
    await page.evaluate(async (inInbox) => {
      const row = inInbox ? ".inbox-line" : ".notice .button";
      document.querySelector<HTMLElement>(row)?.click();
      const found = () =>
        [...document.querySelectorAll("button")].find((it) => it.textContent?.startsWith("Run `"));
      while (found() === undefined) await new Promise((done) => requestAnimationFrame(done));
      found()?.click();
      found()?.focus();
      const key = { key: "Enter", bubbles: true };
      found()?.dispatchEvent(new KeyboardEvent("keydown", key));
      found()?.click();
    }, inInbox);
    await expect(page.getByRole("button", { name: /^Run `echo/ })).toBeEnabled();
    expect(await decided(stage, id)).toBe(0);
  }
});

test("a press that was begun before the action came up does not count when it is let go", async ({
  page,
  stage,
}) => {
  const id = await threeWaiting(stage);
  await named(page, stage);
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Review" }).focus();
  // Held down it repeats: the first stroke opens the card, later ones meet its buttons.
  await page.keyboard.down("Enter");
  const run = page.getByRole("button", { name: /^Run `echo/ });
  await expect(run).toBeEnabled();
  await run.focus();
  for (let at = 0; at < 3; at += 1) await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  expect(await decided(stage, id)).toBe(0);
  await page.keyboard.press("Enter");
  await expect.poll(() => decided(stage, id)).toBe(1);
});

test("a double click or Enter twice on Cancel ends nothing", async ({ page, stage }) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await doubleClick(page, "Cancel…");
  const dialog = page.getByRole("dialog", { name: "Cancel the session" });
  await expect(dialog.getByRole("button", { name: "Cancel for good" })).toBeEnabled();
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await page.getByRole("button", { name: "Cancel…" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await expect(dialog.getByRole("button", { name: "Keep it" })).toBeFocused();
  await expect(dialog.getByRole("button", { name: "Cancel for good" })).toBeEnabled();
  await page.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Cancel…" })).toBeFocused();
  await page.keyboard.press("Enter");
  await until(stage, id, "waiting_approval");
  await dialog.getByLabel(/^Why/).fill("not today");
  await expect(dialog).toContainText(`stepwell cancel ${id} --reason 'not today'`);
  await dialog.getByRole("button", { name: "Cancel for good" }).click();
  await expect(page.locator(".session-head .status")).toHaveText("cancelled");
  expect(await stage.cli("events", id)).toContain("not today");
});

test("a double click on Hold holds, one on One step does one step", async ({ page, stage }) => {
  await stage.start(THREE);
  const agent = stage.file("agent.toml", AGENT);
  const id = await stage.submit(agent, "Three things.", "--paused");
  await page.goto(`${stage.url}/s/${id}`);
  const count = async (type: string) => (await stage.cli("events", id)).split(type).length - 1;
  await doubleClick(page, "One step");
  await expect.poll(() => count("model_replied")).toBe(1);
  expect(await count("resume_requested")).toBe(1);
  await doubleClick(page, "Go on");
  await expect(page.getByRole("button", { name: "Hold" })).toBeVisible();
  expect([await count("resume_requested"), await count("pause_requested")]).toEqual([2, 0]);
});

test("a session that is held while it waits can be let go, from the page and by name", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Hold" }).click();
  await expect(page.locator(".session-head")).toContainText("held");
  await expect(page.locator(".session-head .status").first()).toHaveText("waits for approval");
  await expect(page.getByRole("button", { name: "Review" })).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.type("go on");
  await page.getByRole("option", { name: /Let the session go on/ }).click();
  await expect(page.getByRole("button", { name: "Hold" })).toBeVisible();
  await expect(page.locator(".session-head")).not.toContainText("held");
});

test("a question is asked in words, in the session and in the inbox, and answered under a name", async ({
  page,
  stage,
}) => {
  await stage.start(ASK);
  const id = await stage.submit(stage.file("asker.toml", ASKER), "Tidy up.");
  await until(stage, id, "waiting_input");
  await page.goto(`${stage.url}/approvals`);
  await expect(page.getByRole("navigation").getByTitle("waiting for a person")).toHaveText("1");
  await page.getByRole("list", { name: "Open questions" }).getByRole("link").click();
  const card = page.getByRole("article", { name: /The model asks/ });
  await expect(card.getByLabel("question")).toContainText(
    "Which of the two folders?\nThe old one has <b>more</b>.",
    { useInnerText: true },
  );
  // Held, it takes the answer all the same.
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Hold" }).click();
  await expect(page.getByRole("button", { name: "Go on" })).toBeVisible();
  await page.keyboard.press("a");
  await expect(card.getByLabel("Your answer")).toBeFocused();
  await page.keyboard.type("The new one.");
  await expect(card.getByRole("button", { name: "Send" })).toBeDisabled();
  await card.getByLabel("Your name in the history").fill("ada");
  await card.getByLabel("Your answer").press("Enter");
  await expect(card).toHaveCount(0);
  expect(await page.evaluate(() => document.activeElement?.tagName)).not.toBe("BODY");
  const events = await stage.cli("events", id, "--json");
  expect(events).toContain("The new one.");
  expect(events).toContain("person:ada");
});

test("who is slower learns what counts, on the session's page as well", async ({ page, stage }) => {
  const id = await waiting(stage);
  await named(page, stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.getByRole("button", { name: "Review" })).toBeVisible();
  await page.keyboard.press("a");
  const card = page.locator(".review").getByRole("article");
  const run = card.getByRole("button", { name: /^Run `echo/ });
  await expect(run).toBeEnabled();
  // The page must not hear of it before the button is pressed.
  await page.route(/ListApprovals|GetState|GetSession/, (route) => route.abort());
  await stage.cli("deny", id, "--by", "grace", "--reason", "I know better.");
  await run.click();
  await expect(card.getByRole("alert")).toContainText("grace");
  await page.unroute(/ListApprovals|GetState|GetSession/);
  await expect(card.getByRole("status").last()).toContainText("Denied by grace");
  await expect(card.getByRole("alert")).toContainText("came too late");
  await expect(card).toContainText("I know better.");
  await expect(run).toHaveCount(0);
  await expect(card.getByRole("status").last()).toBeFocused();
});

test("the approval that is reviewed is the one that is selected, and `a` goes on to the next", async ({
  page,
  stage,
}) => {
  const id = await threeWaiting(stage);
  await named(page, stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.getByRole("button", { name: "Review" })).toBeVisible();
  const card = page.locator(".review").getByRole("article");
  const selected = page.getByRole("row", { selected: true });
  const shows = async (letter: string, call: string) => {
    await expect(card).toContainText(`echo ${letter}`);
    await expect(selected).toContainText(call);
    await expect(page.getByRole("region", { name: "Details" })).toContainText(`echo ${letter}`);
  };
  await page.keyboard.press("a");
  await shows("a", "1.1");
  await page.getByRole("button", { name: "next approval" }).click();
  await shows("b", "1.2");
  await page.getByRole("row", { name: /1\.3/ }).first().click();
  await shows("c", "1.3");
  await card.getByRole("button", { name: "Run `echo c > c.txt`" }).click();
  await expect(card.locator(".approval-outcome")).toContainText("Approved by ada");
  await page.keyboard.press("a");
  await shows("a", "1.1");
  await expect(card.getByRole("heading", { name: "May shell run?" })).toBeFocused();
  expect(await decided(stage, id)).toBe(1);
});

test("who is slower with an answer learns it, and keeps what was written", async ({
  page,
  stage,
}) => {
  await stage.start(ASK);
  const id = await stage.submit(stage.file("asker.toml", ASKER), "Tidy up.");
  await until(stage, id, "waiting_input");
  await named(page, stage);
  for (const path of [`/s/${id}`, `/approvals?id=${id}`]) await page.goto(`${stage.url}${path}`);
  const card = page.getByRole("article", { name: /The model asks/ });
  await card.getByLabel("Your answer").fill("The old one.");
  await stage.cli("send", id, "The new one.", "--by", "grace");
  await expect(card.getByRole("status")).toContainText("It was answered meanwhile");
  await expect(card.getByRole("status")).toBeFocused();
  await expect(card.getByLabel("answer that was not taken")).toHaveText("The old one.");
  await card.getByRole("button", { name: "Put it away" }).click();
  await expect(card).toHaveCount(0);
});

test("an approval and a question leave room for what happened", async ({ page, stage }) => {
  await stage.start(`
[[step]]
tool_calls = [
  { name = "shell", arguments = { command = "echo a > a.txt" } },
  { name = "ask_user", arguments = { question = "Which of the two folders?" } },
]
`);
  const agent = AGENT.replace("[", '["ask_user", ');
  const id = await stage.submit(stage.file("agent.toml", agent), "Two things.");
  await until(stage, id, "waiting_approval");
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.locator(".review")).toHaveCount(2);
  await expect(page.locator(".scrubber-line")).toBeInViewport({ ratio: 1 });
  const panes = await page.locator(".session-moment").boundingBox();
  expect(panes?.height).toBeGreaterThan(150);
});

for (const [where, size] of [
  ["on a phone", { width: 390, height: 844 }],
  ["on a low screen", { width: 1280, height: 500 }],
] as const) {
  test(`an approval is decided in the session ${where}`, async ({ page, stage }) => {
    const id = await waiting(stage);
    await page.setViewportSize(size);
    await page.goto(`${stage.url}/s/${id}`);
    await page.getByRole("button", { name: "Review" }).click();
    const review = page.locator(".review");
    const heading = review.getByRole("heading", { name: "May shell run?" });
    await expect(heading).toBeInViewport();
    const [panel, words] = [await review.boundingBox(), await heading.boundingBox()];
    expect((words?.y ?? 0) - (panel?.y ?? 0)).toBeLessThan(24);
    // One thing scrolls, and no other covers what is decided.
    const run = review.getByRole("button", { name: "Run `echo pushed > pushed.txt`" });
    await review.getByLabel("Your name in the history").fill("ada");
    await expect(run).toBeEnabled();
    await run.scrollIntoViewIfNeeded();
    await expect(run).toBeInViewport({ ratio: 1 });
    await run.click();
    await expect(review.locator(".approval-outcome")).toContainText("Approved by ada");
  });
}

test("what was begun outlives a look at the past", async ({ page, stage }) => {
  const id = await waiting(stage);
  await named(page, stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.getByRole("button", { name: "Review" })).toBeVisible();
  await page.keyboard.press("a");
  const card = page.locator(".review").getByRole("article");
  await card.getByRole("button", { name: "Deny…" }).click();
  await page.keyboard.type("Not on a Friday.");
  await page.getByRole("slider", { name: "Moment of the session" }).press("ArrowLeft");
  await expect(page.getByLabel("The past")).toBeVisible();
  await expect(card).toHaveCount(0);
  await page.getByRole("button", { name: "Back to now" }).click();
  await expect(card.getByLabel(/^Why not/)).toHaveValue("Not on a Friday.");
});

test("a session that was deleted says so, and offers nothing", async ({ page, stage }) => {
  const id = await waiting(stage);
  await named(page, stage);
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Review" }).click();
  await expect(page.locator(".review")).toBeVisible();
  await stage.cli("delete", id, "--force", "--yes");
  await expect(page.getByLabel("Deleted")).toContainText("it was deleted");
  await expect(page.locator(".scrubber-live")).toHaveText("deleted");
  await expect(page.getByRole("log", { name: "Conversation" })).toContainText("I push it.");
  for (const name of [/^Run/, /^Fork/, "Hold", "Cancel…", "Review", "Replay"]) {
    await expect(page.getByRole("button", { name })).toHaveCount(0);
  }
});
