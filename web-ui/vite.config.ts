import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** The server that `npm run dev` asks. */
const server = process.env["STEPWELL_URL"] ?? "http://127.0.0.1:7171";

/** Below this many bytes nothing is won. */
const PACKED_FROM = 4_096;

/** Puts a compressed copy beside each large text: the server sends what was made once. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    generateBundle: {
      order: "post",
      handler(_options, files) {
        for (const file of Object.values(files)) {
          const content = file.type === "chunk" ? file.code : file.source;
          if (!/\.(js|css)$/.test(file.fileName) || content.length < PACKED_FROM) continue;
          const source = gzipSync(content, { level: 9 });
          this.emitFile({ type: "asset", fileName: `${file.fileName}.gz`, source });
        }
      },
    },
  };
}

export default defineConfig({
  plugins: [react(), packed()],
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
