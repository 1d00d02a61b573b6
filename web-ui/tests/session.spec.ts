import { expect, type Page } from "@playwright/test";
import { longSession } from "./long-session.ts";
import { test } from "./stage.ts";
import { AGENT, approved, completed, HELLO, HOSTILE, pushing, waiting } from "./stories.ts";

const rows = (page: Page) => page.getByRole("treegrid", { name: "Steps" }).getByRole("row");
const said = (page: Page) => page.getByRole("log", { name: "Conversation" }).getByRole("article");
const slider = (page: Page) => page.getByRole("slider", { name: "Moment of the session" });

test("a session is shown as tree, conversation and details of one selection", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(rows(page)).toHaveCount(5);
  await expect(rows(page).filter({ hasText: "1.1" }).first()).toContainText("1.1shell");
  await expect(said(page).last()).toContainText("I push it.");
  await expect(page.getByLabel("Why it waits")).toContainText("echo pushed > pushed.txt");
  // Choosing in one pane moves the others.
  await page.getByRole("button", { name: "assistant" }).click();
  const details = page.getByRole("region", { name: "Details" });
  await expect(details.getByRole("heading", { level: 2 })).toContainText("model call");
  await expect(rows(page).and(page.locator("[aria-selected=true]"))).toHaveClass(/kind-model/);
  await page.keyboard.press("j");
  await expect(details.getByRole("heading", { level: 2 })).toContainText("tool call");
  await expect(details).toContainText('"command": "echo pushed > pushed.txt"');
  await details.getByRole("tab", { name: "Events" }).click();
  await expect(details).toContainText("approval requested");
  await page.keyboard.press("h");
  await expect(rows(page)).toHaveCount(4);
  await page.keyboard.press("l");
  await expect(rows(page)).toHaveCount(5);
});

test("any moment can be reached, said plainly, and linked to", async ({ page, stage }) => {
  const id = await completed(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(said(page).last()).toContainText("Done.");
  await expect(page.locator(".scrubber-live")).toHaveText("the end");
  const last = Number(await slider(page).getAttribute("aria-valuemax"));
  for (let back = 0; back < last - 2; back += 1) await page.keyboard.press("[");
  await expect(page).toHaveURL(`${stage.url}/s/${id}@2`);
  await expect(page.getByLabel("The past")).toContainText(`As it was at event 2 of ${last}`);
  await expect(said(page)).toHaveCount(2);
  await expect(rows(page)).toHaveCount(3);
  await expect(page.locator(".session-head .status")).toHaveText("asks the model");
  // The link shows the same to somebody else.
  await page.goto(`${stage.url}/s/${id}@4`);
  await expect(page.getByLabel("The past")).toContainText("event 4");
  await expect(page.getByLabel("Under way")).toContainText("awaiting approval");
  await expect(rows(page)).toHaveCount(5);
  await expect(page.getByLabel("Why it waits")).toHaveCount(0);
  await page.keyboard.press("g");
  await page.getByLabel(/Event, 1 to/).fill("3");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(`${stage.url}/s/${id}@3`);
  await page.keyboard.press(".");
  await expect(page).toHaveURL(`${stage.url}/s/${id}`);
  await expect(said(page).last()).toContainText("Done.");
});

test("what the tree shows of a moment is what the server computes for it", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await stage.cli("deny", id, "--by", "ada", "--reason", "no");
  await expect.poll(() => stage.cli("show", id)).toContain("completed");
  const head = (await stage.cli("events", id)).trim().split("\n").length;
  const tree = async (...at: string[]) => {
    const lines = (await stage.cli("tree", id, ...at, "--json")).trim().split("\n");
    return lines.map((it) => `span-${(JSON.parse(it) as { span_id: string }).span_id}`);
  };
  const now = await tree();
  for (let seq = 1; seq < head; seq += 1) {
    // Between two events of one append the session may seem to wait; later nobody knows of it.
    const expected = (await tree("--at", `${seq}`)).filter((it) => now.includes(it));
    await page.goto(`${stage.url}/s/${id}@${seq}`);
    await expect(page.getByLabel("The past")).toContainText(`event ${seq} of`);
    await expect
      .poll(() => rows(page).evaluateAll((all) => all.map((it) => it.id)), `event ${seq}`)
      .toEqual(expected);
  }
});

test("a fork from a moment runs to its own end and is compared with its parent", async ({
  page,
  stage,
}) => {
  const id = await completed(stage);
  await page.goto(`${stage.url}/s/${id}@4`);
  await expect(page.getByLabel("The past")).toBeVisible();
  await page.keyboard.press("f");
  const dialog = page.getByRole("dialog", { name: /^Fork/ });
  await expect(dialog).toContainText("Both share events 1 to 4.");
  await expect(dialog).toContainText("were on their way (1)");
  await dialog.getByRole("button", { name: "Change something" }).click();
  await dialog.getByRole("combobox", { name: "What" }).selectOption("result");
  await expect(dialog.getByRole("combobox", { name: "Call" })).toHaveValue("1.1");
  await dialog.getByLabel("Text").fill("pushed by hand");
  await expect(dialog).toContainText(`stepwell fork ${id} --at 4 --result '1.1=pushed by hand'`);
  await dialog.getByRole("button", { name: "Fork and run" }).click();
  await expect(page).not.toHaveURL(new RegExp(id));
  await expect(page.locator(".session-head .status")).toHaveText("completed");
  await expect(page.getByRole("heading", { level: 1, name: "Push the fix." })).toBeFocused();
  await expect(page.getByRole("log", { name: "Conversation" })).toContainText("pushed by hand");
  await page.keyboard.press("Home");
  const details = page.getByRole("region", { name: "Details" });
  await expect(details.locator(".lineage")).toContainText("this session");
  await details.getByRole("link", { name: "compare" }).click();
  await expect(page.locator(".compare-first")).toContainText("First difference: step 1");
  await expect(page.locator(".is-first")).toContainText("pushed by hand");
  // Each side leads to the event that says so.
  const [ours, theirs] = [page.locator(".is-first a").first(), page.locator(".is-first a").last()];
  await expect(ours).toHaveText("event 5");
  await theirs.click();
  await expect(page.getByRole("heading", { level: 1 })).toBeFocused();
  await expect(page.locator(".scrubber-what")).toContainText("tool finished");
});

test("a change of a fork that is not written yet is no mistake", async ({ page, stage }) => {
  const id = await completed(stage);
  await page.goto(`${stage.url}/s/${id}@2`);
  await expect(page.getByLabel("The past")).toBeVisible();
  await page.keyboard.press("f");
  const dialog = page.getByRole("dialog", { name: /^Fork/ });
  await dialog.getByRole("button", { name: "Change something" }).click();
  const problem = dialog.getByText("the message is empty");
  const fork = dialog.getByRole("button", { name: "Fork and run" });
  await expect(dialog.getByLabel("Text")).toBeVisible();
  await expect(problem).toHaveCount(0);
  await fork.click();
  await expect(problem).toBeVisible();
  await expect(fork).toBeDisabled();
  await dialog.getByLabel("Text").fill("Go on.");
  await expect(problem).toHaveCount(0);
  await expect(fork).toBeEnabled();
});

test("the fork dialog offers what fits the moment, with what it was there", async ({
  page,
  stage,
}) => {
  const id = await completed(stage);
  const dialog = page.getByRole("dialog", { name: /^Fork/ });
  const kinds = () =>
    dialog.getByRole("combobox", { name: "What" }).locator("option").allTextContents();
  const open = async (at: string) => {
    await page.goto(`${stage.url}/s/${id}${at}`);
    await expect(page.locator(".scrubber-live, .scrubber-back").first()).toBeVisible();
    await expect(rows(page).first()).toBeVisible();
    await page.keyboard.press("f");
    await dialog.getByRole("button", { name: "Change something" }).click();
  };
  // The model is asked, has answered, and has its call judged.
  for (const [at, offered] of [
    ["@2", ["another reply of the model", "a message"]],
    ["@3", ["another result of a call", "other arguments of a call", "a message"]],
    ["@4", ["another result of a call", "a message"]],
  ] as const) {
    await open(at);
    await expect.poll(kinds).toEqual(offered);
    await expect(dialog.getByRole("alert")).toHaveCount(0);
  }
  await open("@3");
  await dialog.getByRole("combobox", { name: "What" }).selectOption("arguments");
  await expect(dialog.getByLabel("Text")).toHaveValue('{"command":"echo pushed > pushed.txt"}');
  await expect(dialog).toContainText("Both share events 1 to 3.");
  await open("");
  await dialog.getByRole("combobox", { name: "What" }).selectOption("reply");
  await expect(dialog.getByLabel("Step")).toHaveValue("2");
  await expect(dialog.getByLabel("Text")).toHaveValue("Done.");
  await expect(dialog).toContainText(`--reply 2=Done.`);
  await expect(dialog.getByText(/Both share events 1 to \d+\./)).toBeVisible();
  // What is not changed is not sent.
  await dialog.getByText("Another model, instructions").click();
  await expect(dialog.getByRole("textbox", { name: "Model" })).toHaveValue("mock");
  await expect(dialog.getByLabel("Instructions")).toHaveValue("Work.");
  await expect(dialog.locator(".cli-line")).not.toContainText("--instructions");
  await dialog.getByLabel("Instructions").fill("Work more.");
  await expect(dialog.locator(".cli-line")).toContainText("--instructions 'Work more.'");
  await dialog.getByLabel("Instructions").fill("");
  await expect(dialog).toContainText("The instructions cannot be empty");
  await expect(dialog.getByRole("button", { name: "Fork and run" })).toBeDisabled();
});

test("replay says its verdict", async ({ page, stage }) => {
  await stage.start(HELLO);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Greet me.", "--wait");
  await page.goto(`${stage.url}/s/${id}`);
  await page.getByRole("button", { name: "Replay" }).click();
  await expect(page.getByRole("dialog")).toContainText(/The same: \d+ events from 2 inputs/);
});

test("after a restart of the server the session goes on without gap or double", async ({
  page,
  stage,
}) => {
  const id = await waiting(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.locator(".scrubber-live")).toHaveText("live");
  await stage.killServer();
  await expect(page.locator(".scrubber-live")).toContainText("connection lost");
  await expect(said(page).last()).toContainText("I push it.");
  await stage.startServer();
  await stage.cli("approve", id, "--by", "ada");
  await expect(said(page).last()).toContainText("Done.", { timeout: 15_000 });
  await expect(page.locator(".scrubber-live")).toHaveText("the end");
  const events = (await stage.cli("events", id)).trim().split("\n").length;
  await expect(slider(page)).toHaveAttribute("aria-valuemax", `${events}`);
});

test("the inline approval moves the session", async ({ page, stage }) => {
  const id = await pushing(stage);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.getByLabel("Why it waits")).toBeVisible();
  await page.keyboard.press("a");
  const card = page.locator(".review").getByRole("article");
  await card.getByLabel("Your name in the history").fill("ada");
  await card.getByRole("button", { name: /^Run `echo/ }).click();
  await expect(said(page).last()).toContainText("Done.");
});

test("what a tool wrote is text in every pane", async ({ page, stage }) => {
  await stage.start(`
[[step]]
content = ${JSON.stringify(HOSTILE)}
tool_calls = [{ name = "shell", arguments = { command = ${JSON.stringify(`echo '${HOSTILE}'`)} } }]

[[step]]
content = ${JSON.stringify(HOSTILE)}
`);
  const id = await stage.submit(stage.file("agent.toml", AGENT), `Look: ${HOSTILE}`);
  await expect.poll(() => stage.cli("show", id)).toContain("waiting_approval");
  await approved(stage, id);
  await page.goto(`${stage.url}/s/${id}`);
  await expect(said(page).last()).toContainText("<script>");
  for (const tab of ["Details", "Events", "Prompt"]) {
    await page.getByRole("button", { name: "assistant" }).last().click();
    await page.getByRole("tab", { name: tab }).click();
    await expect(page.locator("#root script, #root img[src='x']")).toHaveCount(0);
  }
  expect(await page.evaluate(() => Reflect.get(window, "harmed"))).toBeUndefined();
});

test("attempts are folded below what was tried again, and unfold", async ({ page, stage }) => {
  await stage.start(`
[[step]]
content = "Hello."
fault = { kind = "status", status = 503, message = "too much to do", times = 1 }
`);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Greet me.", "--wait");
  await page.goto(`${stage.url}/s/${id}`);
  const model = rows(page).and(page.locator('[id="span-model:1"]'));
  await expect(model).toHaveAttribute("aria-expanded", "false");
  await expect(rows(page).filter({ hasText: "attempt" })).toHaveCount(0);
  await model.click();
  await page.keyboard.press("l");
  await expect(model).toHaveAttribute("aria-expanded", "true");
  await expect(rows(page).filter({ hasText: "attempt" })).toHaveCount(2);
  await page.keyboard.press("h");
  await expect(rows(page).filter({ hasText: "attempt" })).toHaveCount(0);
});

test("what a session cost is told where the model has a price", async ({ page, stage }) => {
  const prices = stage.file("prices.toml", "[prices.mock]\nprompt = 1000.0\ncompletion = 2000.0\n");
  await stage.start(HELLO, ["--config", prices]);
  const id = await stage.submit(stage.file("agent.toml", AGENT), "Greet me.", "--wait");
  const usage = await stage.cli("usage", id);
  const cost = /^cost\s+(\S+)$/m.exec(usage)?.[1] ?? "none";
  await page.goto(`${stage.url}/s/${id}`);
  await expect(page.locator(".session-facts")).toContainText(`cost${cost}`);
});

test("the page does not grow with the session", async ({ page, stage }) => {
  test.setTimeout(120_000);
  await stage.start(HELLO);
  const sizes: Array<{ nodes: number; bytes: number }> = [];
  for (const events of [2_000, 20_000]) {
    const it = await longSession(stage, events, events);
    let bytes = 0;
    const asked: string[] = [];
    page.on("request", (request) => {
      const name = new URL(request.url()).pathname.split("/").at(-1) ?? "";
      if (["GetState", "ListSpans", "GetSpan"].includes(name)) asked.push(name);
    });
    page.on("response", async (response) => {
      if (!response.url().includes("stepwell.v1")) return;
      // The strip is a few bytes an event; all else is windows.
      if (response.url().endsWith("GetTimeline")) return;
      const body = await response.body().catch(() => Buffer.alloc(0));
      bytes += body.length;
    });
    await page.goto(`${stage.url}/s/${it.id}`);
    await expect(said(page).last()).toContainText("All services use it now.");
    // The strip is read after what is looked at first.
    await expect(page.locator(".scrubber-live")).toHaveText("the end");
    for (const part of [0.2, 0.8, 0.5]) {
      const box = await slider(page).boundingBox();
      if (box === null) throw new Error("no slider");
      asked.length = 0;
      await slider(page).click({ position: { x: box.width * part, y: 8 } });
      await expect(page.getByLabel("The past")).toBeVisible();
      await expect(page.locator(".session-moment")).toHaveAttribute("aria-busy", "false");
      await expect(page.locator(".message.is-unread, .tree-row.is-unread")).toHaveCount(0);
      // Nothing is asked for that only the moment before had in sight.
      await expect(page.getByRole("region", { name: "Details" }).locator("h2")).toBeVisible();
      expect(asked.sort()).toEqual(["GetSpan", "GetState", "ListSpans"]);
    }
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    sizes.push({ nodes, bytes });
    page.removeAllListeners("request").removeAllListeners("response");
  }
  const [short, long] = sizes;
  if (short === undefined || long === undefined) throw new Error("nothing was measured");
  expect(long.nodes).toBeLessThan(3_000);
  expect(long.nodes).toBeLessThan(short.nodes * 1.5);
  expect(long.bytes).toBeLessThan(short.bytes * 1.5);
});
