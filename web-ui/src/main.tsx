import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./api/query-client.ts";
import { App } from "./app.tsx";
import "./look/variables.css";
import "./look/base.css";
import "./look/parts.css";
import { applyTheme, readTheme } from "./preferences.ts";

applyTheme(readTheme());

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
