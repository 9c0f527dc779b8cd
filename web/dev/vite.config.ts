import { defineConfig } from "vite";

// For work on the page: `npm run dev` shows it as it is being written, with the data of a server that runs already.
const server = process.env["EVERTICK_SERVER"] ?? "http://127.0.0.1:8765";

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  server: {
    // The server takes no orders from pages of another origin: here it is told its own.
    proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } },
  },
});
