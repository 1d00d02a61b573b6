// Measures: `npm run measure`. Numbers of this machine, so that no test asserts them.
import { defineConfig } from "@playwright/test";
import config from "./playwright.config.ts";

export default defineConfig({
  ...config,
  testDir: "measure",
  testMatch: "*.measure.ts",
  timeout: 600_000,
  use: { ...config.use, trace: "off" },
});
