#!/usr/bin/env bash
# The two steps of the Dockerfile that install Python packages; apart, so that a change of the code does not repeat the
# first. The environment is in /opt/slipstream (SLIPSTREAM_IMAGE chooses another place).
#
#   scripts/image.sh install    what requirements.lock has, with its hashes, without the development tools
#   scripts/image.sh package    a wheel of these sources, with the page and the examples
set -euo pipefail
cd "$(dirname "$0")/.."

ENVIRONMENT=${SLIPSTREAM_IMAGE:-/opt/slipstream}

# Only what the extras of a service need: pip resolves the names against the hashed lock.
install() {
  python3 -m venv "$ENVIRONMENT"
  "$ENVIRONMENT/bin/python" - > "$ENVIRONMENT/wanted.txt" <<'PY'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for extra in (project["dependencies"], *(project["optional-dependencies"][name] for name in ("kafka", "console", "metrics", "gis"))):
    print(*extra, sep="\n")
PY
  "$ENVIRONMENT/bin/python" -m venv "$ENVIRONMENT/uv"
  "$ENVIRONMENT/uv/bin/pip" install --quiet uv
  "$ENVIRONMENT/uv/bin/uv" pip compile --quiet --python "$ENVIRONMENT/bin/python" --no-header --no-annotate \
    --constraint requirements.lock "$ENVIRONMENT/wanted.txt" --output-file "$ENVIRONMENT/names.txt"
  # the entries of the lock that these need, with their hashes
  "$ENVIRONMENT/bin/python" - "$ENVIRONMENT/names.txt" requirements.lock > "$ENVIRONMENT/locked.txt" <<'PY'
import re, sys
names = {re.match(r"[\w.-]+", line)[0] for line in open(sys.argv[1]) if line[0].isalnum()}
taken = False
for line in open(sys.argv[2]):
    if line[0].isalnum():
        taken = re.match(r"[\w.-]+", line)[0] in names
    if taken:
        print(line, end="")
PY
  "$ENVIRONMENT/uv/bin/uv" pip install --quiet --python "$ENVIRONMENT/bin/python" --require-hashes -r "$ENVIRONMENT/locked.txt"
  rm -rf "$ENVIRONMENT/uv"
}

package() {
  "$ENVIRONMENT/bin/pip" install --quiet --no-deps .
  find "$ENVIRONMENT" -name __pycache__ -type d -prune -exec rm -rf {} +
}

case "${1:-}" in
  install) install ;;
  package) package ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
