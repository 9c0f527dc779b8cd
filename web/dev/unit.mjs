// Runs the tests of what is pure (`*.test.ts`): bundled by the builder that the page has anyway, run by Node itself.

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "src");
const tests = readdirSync(root, { recursive: true }).filter((name) => name.endsWith(".test.ts"));
const folder = mkdtempSync(join(tmpdir(), "evertick-web-"));
try {
  await build({ entryPoints: tests.map((name) => join(root, name)), outdir: folder, bundle: true, platform: "node", format: "esm", outExtension: { ".js": ".mjs" }, logLevel: "error" });
  const made = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".mjs"));
  const { status } = spawnSync(process.execPath, ["--test", ...made.map((name) => join(folder, name))], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
