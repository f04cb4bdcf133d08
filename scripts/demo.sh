#!/usr/bin/env bash
# What `make demo` shows: Linear City's traffic comes to life.
set -euo pipefail
cd "$(dirname "$0")/.."
run=runs/demo
rm -rf "$run"
echo "Simulating one expressway: ten minutes of heavy traffic, with accidents ..."
.venv/bin/slipstream simulate --expressways 1 --minutes 10 --seed 7 --demand 6 --accident-every 5 --out "$run"
.venv/bin/slipstream describe "$run"
cat <<EOT

What to try next
  .venv/bin/slipstream history $run                     ten weeks of tolls and traffic before the run
  .venv/bin/slipstream export $run --out demo.dat       the published Linear Road text
  .venv/bin/slipstream simulate --help                  a whole city, three hours, any seed
EOT
