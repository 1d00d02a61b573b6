import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** The server that `npm run dev` asks. */
const server = process.env["STEPWELL_URL"] ?? "http://127.0.0.1:7171";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2023",
    // A strict content policy forbids what is inlined.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1_000,
  },
  server: {
    proxy: {
      "^/(stepwell\\.v1\\.|v1/|health)": {
        target: server,
        changeOrigin: true,
        // The server answers to its own pages only; in development the page is this one.
        headers: { origin: server },
      },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
