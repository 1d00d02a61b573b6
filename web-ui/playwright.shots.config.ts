// Takes pictures of the pages: `npm run shots`. Those for the README are committed, the others are
// looked at and thrown away.
import { defineConfig } from "@playwright/test";
import config from "./playwright.config.ts";

export default defineConfig({
  ...config,
  testDir: "shots",
  testMatch: "*.shot.ts",
  timeout: 120_000,
});
