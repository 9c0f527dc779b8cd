import { build } from "esbuild";
import { defineConfig, type Plugin } from "vite";

const PLACE = "<!-- first script -->";

/** The pages that are not part of the first download, by the address that `src/pages/index.tsx` gives them. */
const LATER: Record<string, string> = {
  "jobs/": "job",
  "runs/": "run",
  calendar: "calendar",
  upcoming: "upcoming",
  cron: "cron",
  executors: "executors",
  queues: "queues",
  audit: "audit",
  settings: "settings",
};

/** Adds `src/first.ts` before all other scripts, as a file of its own that blocks nothing but itself. */
function firstScript(): Plugin {
  return {
    name: "first-script",
    enforce: "post",
    generateBundle: {
      order: "post",
      async handler(_options, bundle) {
        const files: Record<string, string[]> = {};
        for (const [address, name] of Object.entries(LATER)) {
          const chunk = Object.values(bundle).find((one) => one.type === "chunk" && one.facadeModuleId?.endsWith(`/pages/${name}.tsx`));
          if (chunk?.type !== "chunk") throw new Error(`the page ${name} has no file of its own`);
          files[address] = [chunk.fileName, ...chunk.imports].filter((file) => !/^assets\/index-/.test(file)).map((file) => `/${file}`);
        }
        const { outputFiles } = await build({ entryPoints: ["src/first.ts"], bundle: true, minify: true, write: false, format: "iife", target: "es2022", define: { PAGE_FILES: JSON.stringify(files) } });
        const script = this.emitFile({ type: "asset", name: "first.js", source: outputFiles[0]?.text ?? "" });
        const page = bundle["index.html"];
        if (page?.type !== "asset" || !String(page.source).includes(PLACE)) throw new Error("index.html has no place for the first script");
        page.source = String(page.source).replace(PLACE, `<script src="/${this.getFileName(script)}"></script>`);
      },
    },
  };
}

// Built into the Python package, which serves the files under a policy that allows no inline script or style.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  plugins: [firstScript()],
  build: {
    outDir: "../src/evertick/web/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
