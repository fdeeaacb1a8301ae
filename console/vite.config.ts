import { resolve } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compress, licenses } from "./build/release";

// The daemon serves the build below /console/. "npm run dev" serves the sources, with changes as they are made, in
// front of a daemon that listens on its default address, or on CORACLE_LISTEN.
const daemon = `http://${process.env.CORACLE_LISTEN ?? "127.0.0.1:4566"}`;

export default defineConfig({
  base: "/console/",
  plugins: [react(), licenses(), compress()],
  resolve: {
    alias: {
      // The names of its variables are those of one release of the components: these are of the one that is built.
      "@cloudscape-design/design-tokens": resolve(
        import.meta.dirname,
        "node_modules/@cloudscape-design/components/internal/generated/styles/tokens.js",
      ),
    },
  },
  build: {
    outDir: resolve(import.meta.dirname, process.env.CONSOLE_OUT || "../internal/console/dist"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // The content security policy allows no data: URLs but for images.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1500,
  },
  server: {
    proxy: {
      "^/console/(session$|kubernetes/)": { target: daemon, ws: true },
      "^/(?!console/)": { target: daemon }, // with the Host that is signed
    },
  },
});
