#!/usr/bin/env bash
# Types, style and unit tests of the console's page. Without Node there is no page to check.
set -euo pipefail
cd "$(dirname "$0")/../web"
if [ ! -d node_modules ]; then
  echo "slipstream: the page is not checked: scripts/console.sh installs what it needs (Node 18 or newer)." >&2
  exit 0
fi
npm run --silent check
