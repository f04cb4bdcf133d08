#!/usr/bin/env bash
# A real Kafka broker for tests and benchmarks: one node, KRaft, loopback only, everything under build/kafka.
# The jars come from Maven Central through mvn, once.
#
#   scripts/kafka.sh start    fetch if needed, start, wait until it answers; prints HOST:PORT. A broker that was
#                             killed continues with its topics
#   scripts/kafka.sh stop     stop it and forget its topics
#   scripts/kafka.sh status   exit code 0 if it runs
#
# SLIPSTREAM_KAFKA_PORT chooses the port (19092).
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=4.1.0
HOME_DIR=build/kafka
JARS=$HOME_DIR/jars-$VERSION
DATA=$HOME_DIR/data
PID=$HOME_DIR/broker.pid
LOG=$HOME_DIR/broker.log
PORT=${SLIPSTREAM_KAFKA_PORT:-19092}
CONTROLLER=$((PORT + 1))

fail() { echo "kafka.sh: $1" >&2; exit 4; }

fetch() {
  [ -e "$JARS/.complete" ] && return
  command -v mvn >/dev/null || fail "needs mvn to fetch Kafka: apt-get install maven"
  mkdir -p "$JARS"
  cat > "$HOME_DIR/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>slipstream</groupId><artifactId>fetch</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$VERSION</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
POM
  mvn -q -B -f "$HOME_DIR/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/$JARS" > "$HOME_DIR/fetch.log" 2>&1 \
    || fail "mvn could not fetch Kafka $VERSION; see $HOME_DIR/fetch.log"
  touch "$JARS/.complete"
}

configure() {
  cat > "$HOME_DIR/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$PORT,CONTROLLER://127.0.0.1:$CONTROLLER
advertised.listeners=PLAINTEXT://127.0.0.1:$PORT,CONTROLLER://127.0.0.1:$CONTROLLER
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$PWD/$DATA
num.partitions=1
auto.create.topics.enable=true
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
}

running() { [ -e "$PID" ] && kill -0 "$(cat "$PID")" 2>/dev/null; }

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }

start() {
  if running; then
    grep -q ":$PORT\b" "$HOME_DIR/server.properties" || fail "the broker of this checkout runs at another port; stop it first"
    echo "127.0.0.1:$PORT"
    return
  fi
  answers && fail "port $PORT is in use; set SLIPSTREAM_KAFKA_PORT"
  fetch
  configure
  local java=("java" -Xms256m -Xmx512m -cp "$JARS/*")
  [ -e "$DATA/meta.properties" ] || "${java[@]}" kafka.tools.StorageTool format --standalone -t "$("${java[@]}" kafka.tools.StorageTool random-uuid)" \
    -c "$HOME_DIR/server.properties" > "$LOG" 2>&1 || fail "storage cannot be formatted; see $LOG"
  nohup "${java[@]}" kafka.Kafka "$HOME_DIR/server.properties" >> "$LOG" 2>&1 < /dev/null &
  echo $! > "$PID"
  for _ in $(seq 300); do
    answers && { echo "127.0.0.1:$PORT"; return; }
    running || fail "the broker ended; see $LOG"
    sleep 0.2
  done
  fail "the broker does not answer; see $LOG"
}

stop() {
  if running; then
    kill "$(cat "$PID")"
    for _ in $(seq 100); do running || break; sleep 0.2; done
    running && kill -9 "$(cat "$PID")"
  fi
  rm -rf "$PID" "$DATA"
}

case "${1:-}" in
  start) start ;;
  stop) stop ;;
  status) running ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
