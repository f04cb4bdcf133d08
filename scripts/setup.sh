#!/usr/bin/env bash
# Make .venv with everything Slipstream needs. Safe to run again; on Debian or Ubuntu as root it also installs
# what the system lacks (Java for Spark, venv for Python, Node for the console's page), elsewhere it says what to install.
set -euo pipefail
cd "$(dirname "$0")/.."

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

need() { # need PACKAGES WHY: install Debian packages or stop with the next step
  if can_apt; then
    echo "installing $1: $2"
    # shellcheck disable=SC2086 # a word a package
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $1 >/dev/null
  else
    echo "slipstream: $2. Install it (Debian, Ubuntu: sudo apt-get install $1), then run 'make setup' again." >&2
    exit 4
  fi
}

# A source archive brings the page; then Node is not needed.
page_is_built() {
  local page=src/slipstream/_console/static/index.html
  [ -f "$page" ] && [ -z "$(find web -name node_modules -prune -o -type f -newer "$page" -print -quit 2>/dev/null)" ]
}

java_major() {
  "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1
}

# uv installs in a fraction of pip's time. It is in the lock itself, and checks the same hashes. Where it cannot be used,
# such as behind an index that only pip's settings name, pip does it.
install_locked() {
  local uv
  uv=$(mktemp)
  awk '/^[a-z0-9]/ { mine = /^uv==/ } mine' requirements.lock > "$uv"
  { .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r "$uv" &&
    .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements.lock; } ||
    .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
  rm -f "$uv"
}

command -v python3 >/dev/null || need python3 "Python 3.11 or newer is missing"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "slipstream: Python 3.11 or newer is needed; python3 is $(python3 --version)." >&2
  exit 4
}
python3 -c 'import venv, ensurepip' 2>/dev/null || need python3-venv "Python's venv module is missing"
major=$( (java_major) 2>/dev/null || true)
[ "${major:-0}" -ge 17 ] || need openjdk-17-jre-headless "Spark needs Java 17 or newer"

[ -x .venv/bin/python ] || python3 -m venv .venv
echo "installing Python packages into .venv: some hundred megabytes the first time"
install_locked
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
# kernels that an earlier version compiled may name classes that are no longer there
find src -name '*.nb[ci]' -delete
.venv/bin/slipstream --version
if ! page_is_built && can_apt && ! command -v npm >/dev/null; then
  need "nodejs npm" "the console's page is built with it" || true
fi
page_is_built || scripts/console.sh || echo "slipstream: everything except the console's page is ready." >&2
.venv/bin/slipstream prepare || echo "slipstream: Spark will start more slowly; everything works." >&2
