import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const OUT = "dist";

/** Packed copies beside the files: the control plane sends those to whoever accepts them. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    closeBundle() {
      const assets = join(import.meta.dirname, OUT, "assets");
      for (const name of readdirSync(assets)) {
        if (!/\.(js|css)$/.test(name)) continue;
        const path = join(assets, name);
        const data = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(data, { level: 9 }));
        const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
        writeFileSync(`${path}.br`, brotliCompressSync(data, { params }));
      }
    },
  };
}

/** speedscope's own app, as it comes: profiles open in it at an address of ours. */
function speedscope(): Plugin {
  const from = join(import.meta.dirname, "node_modules", "speedscope", "dist", "release");
  return {
    name: "speedscope",
    apply: "build",
    closeBundle() {
      cpSync(from, join(import.meta.dirname, OUT, "speedscope"), {
        recursive: true,
        // What stands for others' work stays beside it; a sample profile does not.
        filter: (path) => !path.includes("perf-vertx-stacks"),
      });
    },
  };
}

export default defineConfig({
  plugins: [react(), packed(), speedscope()],
  // While developing: calls go to a control plane that runs, `make demo` for one.
  server: {
    proxy: Object.fromEntries(
      ["/client", "/problems", "/speedscope"].map((path) => [path, "http://127.0.0.1:8787"]),
    ),
  },
  build: {
    outDir: OUT,
    target: "es2022",
    // Every script and style in a file of its own: the page's policy allows nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
