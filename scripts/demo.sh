#!/usr/bin/env bash
# What `make demo` shows: traffic comes to life, is tolled, and every answer is checked another way.
set -euo pipefail
cd "$(dirname "$0")/.."
slipstream=.venv/bin/slipstream
run=runs/demo
out=runs/demo-tolls
rm -rf "$run" "$out"

echo "1. Simulating one expressway: ten minutes of heavy traffic, with an accident ..."
"$slipstream" simulate --expressways 1 --minutes 10 --seed 14 --demand 6 --accident-every 5 --out "$run"
echo "2. What it looks like ..."
"$slipstream" describe "$run"
echo "3. Tolling it ..."
"$slipstream" toll "$run" --out "$out"
echo "4. Computing all answers again in another way, and comparing them ..."
"$slipstream" validate "$run" "$out" --no-response-times --report "$out/report.html"

cat <<EOT

Look at
  $run/picture.png      the traffic
  $out/output.csv       the answers
  $out/report.html      the validator's report

What to try next
  $slipstream history $run                                   ten weeks of tolls and traffic before the run
  $slipstream toll $run --speed 10 --out runs/paced          ten times real time, with response times
  $slipstream simulate --minutes 180 --out runs/standard     the benchmark's three hours
EOT
