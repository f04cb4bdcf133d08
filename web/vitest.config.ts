import { defineConfig } from "vitest/config";

// Unit tests of what has no page: formats, links, models. Pages are tested in Chromium, by tests/console.
export default defineConfig({ test: { include: ["tests/**/*.test.ts"], environment: "node" } });
