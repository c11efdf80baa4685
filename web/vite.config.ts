// How the app is built: no plugin, JSX by esbuild, the API client from its source. `vite` alone serves it from the source,
// with the API of a daemon on this machine (STOCKADE_URL) behind it.
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const daemon = process.env['STOCKADE_URL'] ?? 'http://127.0.0.1:7077'

export default defineConfig({
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  resolve: { alias: { 'stockade-client': fileURLToPath(new URL('../clients/typescript/src/index.ts', import.meta.url)) } },
  html: { cspNonce: '@NONCE@' }, // the server puts another one into each page
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the page may load from itself alone
    cssCodeSplit: true,
    emptyOutDir: true,
  },
  server: { proxy: Object.fromEntries(['/api', '/health', '/readyz', '/metrics'].map((path) => [path, { target: daemon, ws: true }])) },
  test: { include: ['src/**/*.test.{ts,tsx}'], environment: 'node', setupFiles: ['scripts/node-18.mjs'] },
})
