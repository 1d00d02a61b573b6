import { QueryClient } from "@tanstack/react-query";
import { failure } from "./failure.ts";

/** Only a server that did not answer may answer the next time. */
const RETRIES_MAX = 2;

/** What was read stays on the screen while it is asked for again, and after it failed. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (count, error) => count < RETRIES_MAX && failure(error).kind === "unreachable",
      retryDelay: 500,
      // The network that matters is the one to this page's own server, often on this machine.
      networkMode: "always",
    },
    mutations: { retry: false, networkMode: "always" },
  },
});
