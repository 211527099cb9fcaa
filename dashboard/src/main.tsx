import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "./api/problem";
import { App } from "./app";
import "./style/base.css";
import "./style/parts.css";
import "./style/flame.css";
import "./style/views.css";
import { followTheme } from "./theme";

followTheme();
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // What the API refuses it will refuse again; what it could not do it may do in a moment.
      retry: (failures, error) =>
        failures < 3 && error instanceof Problem && (error.status === 0 || error.status >= 500),
      retryDelay: (failures) => Math.min(500 * 2 ** failures, 4_000),
      refetchOnWindowFocus: true,
    },
  },
});
const root = document.getElementById("root");
if (root === null) throw new Error("the page has no root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App forget={() => queries.clear()} />
    </QueryClientProvider>
  </StrictMode>,
);
