#!/usr/bin/env bash
# A PostgreSQL server for the baseline: Debian's package, loopback only, no recovery logging, all under build/postgres.
#
#   scripts/postgres.sh start    make the data directory if needed, start, wait; prints a connection string
#   scripts/postgres.sh stop     stop it and throw its data away
#   scripts/postgres.sh status   exit code 0 if it runs
#
# SLIPSTREAM_POSTGRES_PORT chooses the port (15432).
set -euo pipefail
cd "$(dirname "$0")/.."

HOME_DIR=$PWD/build/postgres
DATA=$HOME_DIR/data
LOG=$HOME_DIR/server.log
PORT=${SLIPSTREAM_POSTGRES_PORT:-15432}

fail() { echo "postgres.sh: $1" >&2; exit 4; }

# The server refuses to run as root; Debian's package brings a user for it.
as_owner() {
  if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else (cd / && "$@"); fi
}

BIN=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -1)
[ -n "$BIN" ] && [ -x "$BIN/initdb" ] || fail "PostgreSQL is not installed: apt-get install postgresql"

running() { [ -d "$DATA" ] && as_owner "$BIN/pg_ctl" -s -D "$DATA" status > /dev/null 2>&1; }

start() {
  if ! running; then
    (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && fail "port $PORT is in use; set SLIPSTREAM_POSTGRES_PORT"
    mkdir -p "$HOME_DIR"
    [ "$(id -u)" != 0 ] || chown postgres "$HOME_DIR"
    [ -d "$DATA" ] || as_owner "$BIN/initdb" -D "$DATA" -U slipstream --auth=trust --no-sync -E UTF8 --locale=C \
      > "$LOG" 2>&1 || fail "initdb failed; see $LOG"
    local settings="-c listen_addresses=127.0.0.1 -c port=$PORT -c unix_socket_directories= -c fsync=off"
    settings+=" -c synchronous_commit=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0"
    settings+=" -c shared_buffers=1GB -c work_mem=64MB -c jit=off -c autovacuum_naptime=5s"
    as_owner "$BIN/pg_ctl" -s -w -t 60 -D "$DATA" -l "$HOME_DIR/postgres.log" -o "$settings" start \
      || fail "the server does not start; see $HOME_DIR/postgres.log"
  fi
  echo "postgresql://slipstream@127.0.0.1:$PORT/postgres"
}

stop() {
  running && as_owner "$BIN/pg_ctl" -s -m fast -D "$DATA" stop
  rm -rf "$DATA"
}

case "${1:-}" in
  start) start ;;
  stop) stop ;;
  status) running ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
