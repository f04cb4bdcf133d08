#!/usr/bin/env bash
# Builds the contenders into build/contenders: fetches pinned jars from Maven Central through mvn, once, checks their
# hashes, and compiles the program with javac. Prints the folder of the build.
set -euo pipefail
cd "$(dirname "$0")/../.."

SOURCE=bench/contenders/flink
HOME_DIR=build/contenders/flink
JARS=$HOME_DIR/jars
CLASSES=$HOME_DIR/classes

fail() { echo "build.sh: $1" >&2; exit "${2:-4}"; }

# what a build was made from
fingerprint() { cat "$SOURCE/pom.xml" "$SOURCE/checksums.txt" "$@" | sha256sum; }

fetch() {
  [ "$(fingerprint)" = "$(cat "$JARS/.complete" 2>/dev/null)" ] && return
  command -v mvn >/dev/null || fail "needs mvn to fetch Flink: apt-get install maven"
  rm -rf "$JARS"
  mkdir -p "$JARS"
  mvn -q -B -f "$SOURCE/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$PWD/$JARS" > "$HOME_DIR/fetch.log" 2>&1 \
    || fail "mvn could not fetch Flink; see $HOME_DIR/fetch.log"
  (cd "$JARS" && sha256sum --quiet --strict -c "$OLDPWD/$SOURCE/checksums.txt") >> "$HOME_DIR/fetch.log" 2>&1 \
    || fail "a jar is not the one in $SOURCE/checksums.txt; see $HOME_DIR/fetch.log"
  [ "$(ls "$JARS" | wc -l)" = "$(wc -l < "$SOURCE/checksums.txt")" ] \
    || fail "there are jars in $JARS that are not in $SOURCE/checksums.txt"
  fingerprint > "$JARS/.complete"
}

compile() {
  [ "$(fingerprint "$SOURCE"/src/linearroad/*.java)" = "$(cat "$CLASSES/.complete" 2>/dev/null)" ] && return
  command -v javac >/dev/null || fail "needs javac, Java 17: apt-get install openjdk-17-jdk-headless"
  rm -rf "$CLASSES"
  javac --release 17 -Xlint:all,-processing,-serial,-path,-classfile -Werror -cp "$JARS/*" -d "$CLASSES" "$SOURCE"/src/linearroad/*.java \
    || fail "the program does not compile" 1
  fingerprint "$SOURCE"/src/linearroad/*.java > "$CLASSES/.complete"
}

mkdir -p "$HOME_DIR"
fetch
compile
echo "$PWD/$HOME_DIR"
