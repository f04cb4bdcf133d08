#!/usr/bin/env bash
# Ask for known vulnerabilities of everything that is locked. Where their data cannot be had, say so and fail nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/audit/bin/python # beside .venv, which has what is locked and nothing else
[ -x $python ] || .venv/bin/python -m venv build/audit
$python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1

report=$(mktemp)
trap 'rm -f "$report"' EXIT
$python -m pip_audit --requirement requirements.lock --disable-pip --require-hashes --format json --output "$report" \
  --progress-spinner off 2>/dev/null || true
$python - "$report" <<'PY' || failed=1
import json, sys

try:
    packages = json.load(open(sys.argv[1]))["dependencies"]
except ValueError:
    packages = []
checked = [package for package in packages if "skip_reason" not in package]
known = [(package["name"], bug["id"]) for package in checked for bug in package["vulns"]]
if not checked:
    print("Python: the data on vulnerabilities is not available here; nothing was checked.")
else:
    print(f"Python: {len(checked)} of {len(packages)} packages checked, {len(known)} known vulnerabilities.")
for name, bug in known:
    print(f"  {name}: {bug}")
sys.exit(bool(known))
PY

if ! command -v npm >/dev/null; then
  echo "The console's page: no npm here; nothing was checked."
elif answer=$(cd web && npm audit --package-lock-only 2>&1); then
  echo "The console's page: $(tail -n 1 <<<"$answer")"
elif grep -q "vulnerabilit" <<<"$answer" && ! grep -qi "audit endpoint\|ENOAUDIT\|E404\|ECONN" <<<"$answer"; then
  echo "$answer"
  failed=1
else
  echo "The console's page: the data on vulnerabilities is not available here; nothing was checked."
fi
exit "${failed:-0}"
