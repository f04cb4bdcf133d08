#!/usr/bin/env bash
# The parts of Slipstream as CycloneDX, for whoever must know what they install: build/sbom/python.cdx.json has what
# requirements.lock pins, build/sbom/page.cdx.json what the console's page was built from.
set -euo pipefail
cd "$(dirname "$0")/.."

python=build/sbom/venv/bin/python # beside .venv, which has what is locked and nothing else
[ -x $python ] || .venv/bin/python -m venv build/sbom/venv
$python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
build/sbom/venv/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library --output-reproducible \
  --of JSON -o build/sbom/python.cdx.json requirements.lock
if command -v npm >/dev/null; then
  (cd web && npm sbom --sbom-format cyclonedx --package-lock-only --omit dev) > build/sbom/page.cdx.json
else
  echo "sbom.sh: no npm here: build/sbom/page.cdx.json is not written." >&2
fi
ls build/sbom/*.json
