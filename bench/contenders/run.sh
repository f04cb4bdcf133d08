#!/usr/bin/env bash
# Linear Road's toll notifications and accident alerts on Apache Flink, from a Kafka topic of text, until SIGTERM.
#
#   bench/contenders/run.sh --bootstrap HOST:PORT --topic TOPIC --out FILE [--since SECOND] [--parallel 2]
#                           [--checkpoint-seconds 5] [--idle SECONDS]
#
# Prints "ready" when it waits for input. Appends answers to FILE in the paper's format; README.md describes the rest.
# SLIPSTREAM_CONTENDER_MEMORY is the size of the Java heap (4g).
set -euo pipefail
HOME_DIR=$("$(dirname "$0")/build.sh")
MEMORY=${SLIPSTREAM_CONTENDER_MEMORY:-4g}
CHECKPOINTS=$(mktemp -d "${TMPDIR:-/tmp}/slipstream-contender-XXXXXX")

java -Xms"$MEMORY" -Xmx"$MEMORY" \
  --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
  --add-opens=java.base/java.util.concurrent=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
  -cp "$HOME_DIR/classes:$HOME_DIR/jars/*" linearroad.Main --checkpoints "$CHECKPOINTS" "$@" &
CHILD=$!
trap 'kill "$CHILD" 2>/dev/null || true' TERM INT
trap 'rm -rf "$CHECKPOINTS"' EXIT
CODE=0
wait "$CHILD" || CODE=$?
if kill -0 "$CHILD" 2>/dev/null; then wait "$CHILD" || CODE=$?; fi # a signal interrupts the first wait
exit "$CODE"
