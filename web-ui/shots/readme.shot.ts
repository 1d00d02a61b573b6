// The pictures of the README, into `docs/pictures`.

import { join } from "node:path";
import { expect } from "@playwright/test";
import { test } from "../tests/stage.ts";
import { fill } from "./scene.ts";

const FOLDER = join(import.meta.dirname, "../../docs/pictures");

test("the pictures of the README", async ({ page, stage }) => {
  const { approval, edited } = await fill(stage);
  await page.addInitScript(() => localStorage.setItem("stepwell.name", "ada"));
  await page.setViewportSize({ width: 1280, height: 720 });
  for (const [name, path] of [
    ["session", `/s/${edited}`],
    ["approval", `/approvals?id=${approval}`],
    ["sessions", "/"],
  ]) {
    await page.goto(stage.url + path);
    await expect(
      page.getByText("Fix the failing date test").or(page.getByRole("article")).first(),
    ).toBeVisible();
    await expect(page.locator("#root .loading")).toHaveCount(0);
    // What has just come up may not be decided yet.
    const decides = page.getByRole("button", { name: "Edit `dates.py`" });
    if (name === "approval") await expect(decides).toBeEnabled();
    await page.screenshot({ path: join(FOLDER, `${name}.png`) });
  }
});
