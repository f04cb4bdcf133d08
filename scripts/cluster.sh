#!/usr/bin/env bash
# A Spark standalone cluster on this machine: a master and two workers, processes of their own, loopback only, under
# build/cluster. Spark's own launcher does it, from the PySpark in .venv.
#
#   scripts/cluster.sh start         start master and workers, wait until both have joined; prints spark://HOST:PORT
#   scripts/cluster.sh kill N        kill -9 worker N (1 or 2) with its executors
#   scripts/cluster.sh stop          stop everything
#
# SLIPSTREAM_CLUSTER_PORT chooses the master's port (17077).
set -euo pipefail
cd "$(dirname "$0")/.."

HOME_DIR=build/cluster
PORT=${SLIPSTREAM_CLUSTER_PORT:-17077}
SPARK=$(find .venv/lib -maxdepth 3 -path '*site-packages/pyspark' | head -1)

fail() { echo "cluster.sh: $1" >&2; exit 4; }

# One daemon in a session of its own, so that it can be killed with all its children.
daemon() {
  local name=$1; shift
  SPARK_HOME=$PWD/$SPARK SPARK_LOCAL_IP=127.0.0.1 SPARK_DAEMON_MEMORY=256m \
    setsid nohup "$SPARK/bin/spark-class" "$@" > "$HOME_DIR/$name.log" 2>&1 < /dev/null &
  echo $! > "$HOME_DIR/$name.pid"
}

joined() { grep -c "Registering worker" "$HOME_DIR/master.log" 2>/dev/null || true; }

start() {
  [ -n "$SPARK" ] || fail "no PySpark in .venv: run make setup"
  stop
  (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && fail "port $PORT is in use; set SLIPSTREAM_CLUSTER_PORT"
  mkdir -p "$HOME_DIR"
  daemon master org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "$PORT" --webui-port 0
  for number in 1 2; do
    daemon "worker-$number" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --webui-port 0 --cores 1 \
      --memory 2g --work-dir "$PWD/$HOME_DIR/work-$number" "spark://127.0.0.1:$PORT"
  done
  for _ in $(seq 300); do
    [ "$(joined)" = 2 ] && { echo "spark://127.0.0.1:$PORT"; return; }
    sleep 0.2
  done
  fail "the workers did not join; see $HOME_DIR/*.log"
}

# kill -9 of a daemon and of all that it started.
end() {
  [ -e "$HOME_DIR/$1.pid" ] || return 0
  kill -9 -- "-$(cat "$HOME_DIR/$1.pid")" 2>/dev/null || true
  rm -f "$HOME_DIR/$1.pid"
}

stop() {
  for name in worker-1 worker-2 master; do end "$name"; done
  rm -rf "$HOME_DIR"/work-*
}

case "${1:-}" in
  start) start ;;
  kill) end "worker-${2:?which worker, 1 or 2}" ;;
  stop) stop ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
