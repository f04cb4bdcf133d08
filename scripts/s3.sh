#!/usr/bin/env bash
# A real S3 server for tests: Versity's gateway over a folder, loopback only, everything under build/s3.
# It is built by go, from the public proxy of Go modules, once. Why this server: docs/dependencies.md.
#
#   scripts/s3.sh start    build if needed, start, wait until it answers; prints the variables that clients need,
#                          for eval. A server that was killed continues with its buckets, on its port
#   scripts/s3.sh stop     stop it and forget its buckets
#   scripts/s3.sh kill     kill it at once; its buckets stay
#   scripts/s3.sh built    exit code 0 if there is nothing to build
#   scripts/s3.sh jars     fetch Hadoop's client of S3 for Spark with mvn, print the jars, separated by colons
#
# SLIPSTREAM_S3_PORT chooses the port (19000). There is one bucket to begin with: slipstream.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=1.8.0
HADOOP=3.5.0
HOME_DIR=build/s3
BIN=$PWD/$HOME_DIR/versitygw-$VERSION
JARS=$HOME_DIR/hadoop-aws-$HADOOP
DATA=$HOME_DIR/data
PID=$HOME_DIR/server.pid
LOG=$HOME_DIR/server.log
PORT=${SLIPSTREAM_S3_PORT:-19000}
KEY=slipstream-tests
SECRET=only-on-loopback

fail() { echo "s3.sh: $1" >&2; exit 4; }

build() {
  [ -x "$BIN/versitygw" ] && return
  command -v go > /dev/null || fail "needs go 1.24 or newer to build the server: https://go.dev/dl"
  mkdir -p "$BIN"
  GOBIN=$BIN go install "github.com/versity/versitygw/cmd/versitygw@v$VERSION" > "$HOME_DIR/build.log" 2>&1 \
    || fail "go could not build versitygw $VERSION; see $HOME_DIR/build.log"
}

jars() {
  [ -e "$JARS/.complete" ] && return
  command -v mvn > /dev/null || fail "needs mvn to fetch jars: apt-get install maven"
  mkdir -p "$JARS"
  cat > "$JARS/pom.xml" << POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>slipstream</groupId><artifactId>fetch</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>$HADOOP</version></dependency>
  </dependencies>
</project>
POM
  mvn -q -B -f "$JARS/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/$JARS" > "$JARS/fetch.log" 2>&1 \
    || fail "mvn could not fetch hadoop-aws $HADOOP; see $JARS/fetch.log"
  touch "$JARS/.complete"
}

running() { [ -e "$PID" ] && kill -0 "$(cat "$PID")" 2> /dev/null; }

answers() { (exec 3<> "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null; }

start() {
  build
  if [ -e "$HOME_DIR/port" ]; then PORT=$(cat "$HOME_DIR/port"); fi
  if ! running; then
    answers && fail "port $PORT is in use; set SLIPSTREAM_S3_PORT"
    mkdir -p "$DATA/slipstream"
    echo "$PORT" > "$HOME_DIR/port"
    ROOT_ACCESS_KEY=$KEY ROOT_SECRET_KEY=$SECRET setsid "$BIN/versitygw" --port "127.0.0.1:$PORT" --quiet \
      posix "$PWD/$DATA" >> "$LOG" 2>&1 < /dev/null &
    echo $! > "$PID"
  fi
  for _ in $(seq 600); do
    if answers; then
      echo "export AWS_ENDPOINT_URL=http://127.0.0.1:$PORT AWS_REGION=us-east-1"
      echo "export AWS_ACCESS_KEY_ID=$KEY AWS_SECRET_ACCESS_KEY=$SECRET"
      return
    fi
    running || fail "the server has ended; see $LOG"
    sleep 0.1
  done
  fail "the server does not answer on port $PORT; see $LOG"
}

end() {
  if running; then
    kill -9 "$(cat "$PID")"
    while running; do sleep 0.1; done
  fi
  rm -f "$PID"
}

case "${1:-}" in
  start) start ;;
  stop) end; rm -rf "$DATA" "$LOG" "$HOME_DIR/port" ;;
  kill) end ;;
  built) [ -x "$BIN/versitygw" ] ;;
  jars) jars; printf '%s\n' "$PWD/$JARS"/*.jar | paste -sd: ;;
  *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
