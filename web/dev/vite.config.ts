import { defineConfig } from "vite";
import { answer } from "./mock.mjs";

// For work on the page without a server: `npm run dev` answers the API from made-up data. EVERTICK_API=http://… uses a real one.
const real = process.env["EVERTICK_API"];

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  server: real ? { proxy: { "/api": { target: real, changeOrigin: true } } } : {},
  plugins: real ? [] : [{ name: "made-up", configureServer: (server) => void server.middlewares.use("/api/v1", answer) }],
});
