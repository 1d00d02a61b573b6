import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { momentOf } from "./address.ts";
import { askAhead } from "./api/ahead.ts";
import { queryClient } from "./api/query-client.ts";
import { App } from "./app.tsx";
import "./look/variables.css";
import "./look/base.css";
import "./look/parts.css";
import { applyTheme, readTheme } from "./preferences.ts";
import { VIEW_BASE } from "./view-base.ts";

applyTheme(readTheme());

const moment = momentOf(window.location.pathname.slice(VIEW_BASE.length));
if (moment !== null) askAhead(queryClient, moment);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
