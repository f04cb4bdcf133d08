#!/usr/bin/env bash
# A real HDFS for tests: a name node and a data node, loopback only, everything under build/hdfs.
# The jars come from Maven Central through mvn, once.
#
#   scripts/hdfs.sh start    fetch if needed, format if new, start, wait until files can be written; prints its URI.
#                            What was killed continues with its files
#   scripts/hdfs.sh stop     stop it and forget its files
#   scripts/hdfs.sh kill [namenode|datanode]    kill one, or both; files stay
#
# SLIPSTREAM_HDFS_PORT chooses the port of the name node (19820); the data node has the three after it.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=3.5.0
HOME_DIR=build/hdfs
JARS=$HOME_DIR/jars-$VERSION
DATA=$HOME_DIR/data
CONF=$HOME_DIR/conf
PORT=${SLIPSTREAM_HDFS_PORT:-19820}
URI=hdfs://127.0.0.1:$PORT

fail() { echo "hdfs.sh: $1" >&2; exit 4; }

fetch() {
  [ -e "$JARS/.complete" ] && return
  command -v mvn >/dev/null || fail "needs mvn to fetch Hadoop: apt-get install maven"
  mkdir -p "$JARS"
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>slipstream</groupId><artifactId>fetch</artifactId><version>1</version><packaging>pom</packaging>'
    echo '<dependencies>'
    for artifact in org.apache.hadoop:hadoop-client-api:$VERSION org.apache.hadoop:hadoop-client-runtime:$VERSION \
      org.apache.hadoop:hadoop-client-minicluster:$VERSION org.slf4j:slf4j-simple:1.7.36; do
      IFS=: read -r group name version <<< "$artifact"
      echo "<dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>"
    done
    echo '</dependencies></project>'
  } > "$HOME_DIR/pom.xml"
  mvn -q -B -f "$HOME_DIR/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/$JARS" > "$HOME_DIR/fetch.log" 2>&1 \
    || fail "mvn could not fetch Hadoop $VERSION; see $HOME_DIR/fetch.log"
  touch "$JARS/.complete"
}

# properties NAME VALUE NAME VALUE ...: a configuration file of Hadoop
properties() {
  echo '<?xml version="1.0"?><configuration>'
  while [ $# -gt 0 ]; do echo "<property><name>$1</name><value>$2</value></property>"; shift 2; done
  echo '</configuration>'
}

configure() {
  mkdir -p "$CONF" "$DATA"
  properties fs.defaultFS "$URI" hadoop.tmp.dir "$PWD/$DATA/tmp" > "$CONF/core-site.xml"
  properties dfs.replication 1 dfs.permissions.enabled false dfs.namenode.safemode.extension 0 \
    dfs.namenode.name.dir "file://$PWD/$DATA/name" dfs.datanode.data.dir "file://$PWD/$DATA/blocks" \
    dfs.namenode.http-address 127.0.0.1:0 dfs.namenode.rpc-bind-host 127.0.0.1 \
    dfs.datanode.address "127.0.0.1:$((PORT + 1))" dfs.datanode.ipc.address "127.0.0.1:$((PORT + 2))" \
    dfs.datanode.http.address "127.0.0.1:$((PORT + 3))" dfs.datanode.hostname 127.0.0.1 \
    dfs.heartbeat.interval 1 dfs.namenode.heartbeat.recheck-interval 2000 dfs.datanode.du.reserved 0 \
    dfs.client.read.shortcircuit false > "$CONF/hdfs-site.xml"
}

hadoop() {
  java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$CONF:$PWD/$JARS/*" "org.apache.hadoop.$1" "${@:2}"
}

running() { [ -e "$HOME_DIR/$1.pid" ] && kill -0 "$(cat "$HOME_DIR/$1.pid")" 2>/dev/null; }

# launch NAME CLASS: start one of the two unless it runs
launch() {
  running "$1" && return
  setsid java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$CONF:$PWD/$JARS/*" "org.apache.hadoop.hdfs.server.$2" >> "$HOME_DIR/$1.log" 2>&1 < /dev/null &
  echo $! > "$HOME_DIR/$1.pid"
}

answers() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start() {
  fetch
  configure
  [ -e "$DATA/name/current/VERSION" ] || hadoop hdfs.server.namenode.NameNode -format -force > "$HOME_DIR/format.log" 2>&1 \
    || fail "the name node cannot be formatted; see $HOME_DIR/format.log"
  launch namenode namenode.NameNode
  launch datanode datanode.DataNode
  for _ in $(seq 600); do
    running namenode || fail "the name node has ended; see $HOME_DIR/namenode.log"
    running datanode || fail "the data node has ended; see $HOME_DIR/datanode.log"
    if answers "$PORT" && answers $((PORT + 1)); then wait_for_data_node; return; fi
    sleep 0.2
  done
  fail "HDFS does not answer on port $PORT; see $HOME_DIR/namenode.log"
}

# files can be written when the data node has registered and the name node has left its safe mode
wait_for_data_node() {
  for _ in $(seq 60); do
    if hadoop hdfs.tools.DFSAdmin -report 2>/dev/null | grep -q "Live datanodes (1)" \
      && hadoop hdfs.tools.DFSAdmin -safemode get 2>/dev/null | grep -q OFF; then
      echo "$URI"
      return
    fi
    sleep 0.5
  done
  fail "no data node has registered; see $HOME_DIR/datanode.log"
}

end() {
  if running "$1"; then
    kill -9 "$(cat "$HOME_DIR/$1.pid")"
    while running "$1"; do sleep 0.1; done
  fi
  rm -f "$HOME_DIR/$1.pid"
}

case "${1:-}" in
  start) start ;;
  stop) end datanode; end namenode; rm -rf "$DATA" "$HOME_DIR"/*.log ;;
  kill) for one in ${2:-datanode namenode}; do end "$one"; done ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
