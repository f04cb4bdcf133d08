#!/usr/bin/env bash
# The steps of a release, each checked before the next; nothing is published. Semantic versions: docs/stability.md.
#
#   make release VERSION=0.2.0
#
# Before: the changelog's first heading is "## 0.2.0 (a date)", and the version is in src/slipstream/__init__.py,
# CITATION.cff and deploy/helm/slipstream/Chart.yaml. After: dist/ has a wheel, a source archive, their checksums and the
# lists of parts, and the commit has the tag v0.2.0. Then push the tag and upload dist/ (it prints how).
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?which version? make release VERSION=0.2.0}
fail() { echo "release.sh: $1" >&2; exit 5; }

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+)?$ ]] || fail "$version is not MAJOR.MINOR.PATCH"
[ -z "$(git status --porcelain)" ] || fail "the working tree has changes; commit them first"
git rev-parse -q --verify "refs/tags/v$version" >/dev/null && fail "the tag v$version exists"
grep -q "^__version__ = \"$version\"" src/slipstream/__init__.py || fail "src/slipstream/__init__.py has another version"
grep -q "^version: $version\$" CITATION.cff || fail "CITATION.cff has another version"
grep -q "^appVersion: \"$version\"" deploy/helm/slipstream/Chart.yaml || fail "Chart.yaml has another appVersion"
heading=$(grep -m 1 '^## ' CHANGELOG.md)
[[ $heading == "## $version "* ]] || fail "CHANGELOG.md begins with \"$heading\", not \"## $version (date)\""

[ "${SLIPSTREAM_RELEASE_UNTESTED:-}" = 1 ] || { make test && make test-long; }
rm -rf dist build/release
.venv/bin/python -m venv build/release
build/release/bin/pip install --quiet --disable-pip-version-check build==1.6.1 twine==7.0.0
build/release/bin/python -m build --outdir dist .
build/release/bin/twine check --strict dist/*
scripts/sbom.sh
cp build/sbom/*.cdx.json dist/
(cd dist && sha256sum -- * > SHA256SUMS)
git tag --annotate "v$version" --message "Slipstream $version"
echo "dist/ is complete, and the commit has the tag v$version. To publish it:"
echo "  git push origin v$version"
echo "  build/release/bin/twine upload dist/*.whl dist/*.tar.gz"
