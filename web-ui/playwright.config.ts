import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { defineConfig } from "@playwright/test";

/** Debian's browser, so that no other is downloaded. */
function chromium(): string {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, "chromium");
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // The next folder may have it.
    }
  }
  throw new Error("chromium is not in PATH: sudo apt-get install chromium");
}

export default defineConfig({
  testDir: "tests",
  outputDir: "test-results",
  fullyParallel: true,
  workers: 2,
  reporter: "list",
  forbidOnly: true,
  // Patience only: a machine may have other things to do.
  expect: { timeout: 20_000 },
  timeout: 90_000,
  use: {
    browserName: "chromium",
    viewport: { width: 1280, height: 800 },
    launchOptions: { executablePath: chromium(), args: ["--no-sandbox"] },
    trace: "retain-on-failure",
  },
});
