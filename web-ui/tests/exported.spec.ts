import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { expect, type Page } from "@playwright/test";
import { type Stage, stepwell, test } from "./stage.ts";
import { waiting } from "./stories.ts";

/** A session that waits for an approval, as a file. */
async function exported(stage: Stage): Promise<string> {
  const id = await waiting(stage);
  const file = join(stage.folder, "failed.stepwell");
  await stage.cli("export", id, "-o", file);
  return file;
}

async function drop(page: Page, file: string): Promise<void> {
  const base64 = readFileSync(file).toString("base64");
  await page.evaluate((base64) => {
    const bytes = Uint8Array.from(atob(base64), (it) => it.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], "failed.stepwell"));
    for (const type of ["dragover", "drop"]) {
      document.body.dispatchEvent(
        new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }),
      );
    }
  }, base64);
}

async function expectReadOnly(page: Page): Promise<void> {
  await expect(page.getByText("An exported file, read only.")).toBeVisible();
  await expect(page.getByRole("heading", { name: "Push the fix." })).toBeVisible();
  await expect(page.getByText("echo pushed").first()).toBeVisible();
  for (const name of [/^Fork/, "Replay", "Cancel", /^Run/, "Hold"]) {
    await expect(page.getByRole("button", { name })).toHaveCount(0);
  }
  await expect(page.getByRole("link", { name: "Review" })).toHaveCount(0);
}

test("a file that is dropped is shown, and nothing of it can be changed", async ({
  page,
  stage,
}) => {
  const file = await exported(stage);
  const before = await stage.cli("ls", "--json");
  await page.goto(stage.url);
  await drop(page, file);
  await expect(page).toHaveURL(/\/view\/[0-9a-f]{32}\/s\/[0-9A-Z]{26}$/);
  await expectReadOnly(page);
  const refused = await page.evaluate(async () => {
    const base = /^\/view\/[0-9a-f]+/.exec(location.pathname)?.[0];
    const headers = { "content-type": "application/grpc-web+proto" };
    const path = `${base}/stepwell.v1.SessionService/CancelSession`;
    const answer = await fetch(path, { method: "POST", headers, body: new Uint8Array(5) });
    return answer.headers.get("grpc-message");
  });
  expect(decodeURIComponent(refused ?? "")).toContain("read only");
  expect(await stage.cli("ls", "--json")).toBe(before);
});

test("a file that is damaged is refused with the place", async ({ page, stage }) => {
  const file = await exported(stage);
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.subarray(0, bytes.length - 9));
  await page.goto(stage.url);
  await drop(page, file);
  const dialog = page.getByRole("dialog", { name: "The file was not opened" });
  await expect(dialog).toContainText(basename(file));
  // The place, what is wrong and what to do, and nothing of an import that nobody wanted.
  await expect(dialog.getByRole("alert")).toHaveText(
    /all its events can be read, what follows them is cut off.*export the session again\.$/,
  );
  await expect(dialog).not.toContainText("imported");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
});

test("view shows a file without a server", async ({ page, stage }) => {
  const file = await exported(stage);
  await stage.killServer();
  const viewer = spawn(stepwell(), ["view", "--json", file]);
  try {
    const [line] = (await once(createInterface(viewer.stdout), "line")) as [string];
    const { url } = JSON.parse(line) as { url: string };
    await page.goto(url);
    await expectReadOnly(page);
    const heading = page.getByRole("heading", { name: "A file is shown here, and not a server." });
    const base = url.replace(/\/s\/.*/, "");
    for (const path of ["/", "/workers", "/approvals", "/agents", "/new"]) {
      await page.goto(`${base}${path}`);
      await expect(heading).toBeVisible();
      await expect(page.getByRole("link", { name: "Look at “Push the fix.”" })).toBeVisible();
      // Outside the file's own address there is nothing: the file is.
      await page.goto(`${new URL(url).origin}${path}`);
      await expect(page).toHaveURL(url);
    }
    const ended = once(viewer, "exit");
    viewer.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  } finally {
    viewer.kill("SIGKILL");
  }
});
