#!/usr/bin/env bash
# Build the console's page from web/ into the package. Needs Node 18 or newer; without it, everything but the page works.
set -euo pipefail
cd "$(dirname "$0")/../web"

version=$( (node --version 2>/dev/null || true) | sed -nE 's/^v([0-9]+).*/\1/p')
if [ "${version:-0}" -lt 18 ] || ! command -v npm >/dev/null; then
  echo "slipstream: the console's page is not built: it needs Node 18 or newer (Debian, Ubuntu: apt-get install nodejs npm)." >&2
  echo "Everything else works. Then run scripts/console.sh." >&2
  exit 4
fi
# `npm ci` would insist on packages for other platforms in the lock file; this takes the locked versions and leaves it alone
npm install --no-save --no-audit --no-fund --loglevel=error
npm run --silent build -- --logLevel=warn
echo "The console's page is built."
