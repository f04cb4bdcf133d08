#!/usr/bin/env bash
# The smoke suite with other versions of PySpark and Python: each in an environment of its own under build/matrix, from a
# wheel of these sources.
#
#   scripts/matrix.sh                     all combinations whose Python is installed here
#   scripts/matrix.sh PYTHON PYSPARK      one: scripts/matrix.sh 3.13 4.2.1
set -euo pipefail
cd "$(dirname "$0")/.."

#: the oldest and newest PySpark of each minor version that pyproject.toml allows, on every Python at least once
COMBINATIONS=("3.11 4.2.0" "3.12 4.2.1" "3.13 4.3.0")
HOME_DIR=$PWD/build/matrix
UV=$HOME_DIR/uv/bin/uv

fail() { echo "matrix.sh: $1" >&2; exit 4; }

# The interpreter of a version, where it is: on PATH, or among those of pyenv.
find_python() {
  local found
  for found in "$(command -v "python$1" || true)" "$HOME"/.pyenv/versions/"$1".*/bin/python3; do
    [ -x "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null && { echo "$found"; return; }
  done
  return 1
}

# The locked versions bind, except that of PySpark and those that a Python is too new for.
install() { # install FOLDER PYSPARK
  sed 's/ \\$//' requirements.lock | grep -E '^[a-z0-9]' | grep -v '^pyspark==' > "$HOME_DIR/constraints.txt"
  "$UV" pip install --quiet --python "$1/bin/python" --constraint "$HOME_DIR/constraints.txt" "$HOME_DIR"/*.whl "pyspark==$2"
}

smoke() { # smoke FOLDER: what a newcomer does, with every kind of job
  (
    cd "$1"
    PATH=$PWD/bin:$PATH
    unset PYTHONPATH VIRTUAL_ENV PYSPARK_PYTHON
    rm -rf runs tolls examples border stocks
    slipstream --version
    slipstream simulate --expressways 1 --minutes 3 --demand 6 --out runs/first
    slipstream toll runs/first --archive --snapshot --out tolls
    slipstream validate runs/first tolls --no-response-times
    slipstream examples
    slipstream network run examples/networks/border.yaml --input soldiers=examples/networks/soldiers.csv --out border
    python -c "
import slipstream as ss
trips = ss.open('tolls').trips()
assert len(trips) > 0
print(len(trips), 'trips')"
  )
}

run() { # run PYTHON PYSPARK
  local python folder=$HOME_DIR/$1-$2
  python=$(find_python "$1") || { echo "matrix.sh: skipped: no Python $1 here"; return; }
  [ -x "$UV" ] || { python3 -m venv "$HOME_DIR/uv" && "$HOME_DIR/uv/bin/pip" install --quiet uv; }
  rm -f "$HOME_DIR"/*.whl
  SLIPSTREAM_WITHOUT_PAGE=1 .venv/bin/pip wheel --quiet --no-deps --wheel-dir "$HOME_DIR" .
  "$UV" venv --quiet --clear --python "$python" "$folder"
  install "$folder" "$2"
  smoke "$folder"
  "$folder/bin/python" -c "import pyspark, sys; print('passed: PySpark', pyspark.__version__, 'Python', sys.version.split()[0])"
}

mkdir -p "$HOME_DIR"
if [ $# = 2 ]; then
  run "$1" "$2"
elif [ $# = 0 ]; then
  for combination in "${COMBINATIONS[@]}"; do
    # shellcheck disable=SC2086 # two words
    run $combination
  done
else
  sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2
fi
