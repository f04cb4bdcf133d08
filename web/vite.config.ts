import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` serves the page and passes questions on to a console at its usual port.
const behind = { target: "http://127.0.0.1:8321", changeOrigin: true };

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/slipstream/_console/static",
    emptyOutDir: true,
    // fonts stay files: the page's policy allows none inside style sheets
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": behind, "/metrics": behind, "/healthz": behind } },
});
