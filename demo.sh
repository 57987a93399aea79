#!/usr/bin/env bash
# Stores the distribution's package index, over a million small items, in leveled RocksDB, universal RocksDB and the trie,
# reads all of it back, compares it byte by byte, and prints what each of them cost.
#
#   ./demo.sh                 installs what is missing, builds, runs; under two minutes once built
#   ./demo.sh --rocksdb=11.8  with that RocksDB, which scripts/fetch_rocksdb brings; or a folder or an archive with another
#   ./demo.sh --items=N       made-up items with the index's sizes instead
#   ./demo.sh --file=TSV      your own items: one a line, key, tab, value
#   ./demo.sh --json=FILE     also writes the figures there
#   ./demo.sh --help          every flag of build/bin/cairn_demo
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/needs_cargo.sh
. scripts/needs_cargo.sh
export LC_ALL=C.UTF-8

folder=build rocksdb='' options=() arguments=()
for argument in "$@"; do
  case $argument in
    --rocksdb=*) rocksdb=${argument#*=} ;;
    *) arguments+=("$argument") ;;
  esac
done
case $rocksdb in '' | /*) ;; *) [ ! -e "$called_from/$rocksdb" ] || rocksdb=$called_from/$rocksdb ;; esac
scripts/install_packages build
if [ -n "$rocksdb" ]; then
  folder=build-rocksdb options=(-DCAIRN_ROCKSDB_SOURCE="$rocksdb")
  ! needs_cargo "$rocksdb" || scripts/install_packages cargo
fi

# What only the tests need is not asked for: a machine without it builds without them. test.sh turns them on again.
if scripts/install_packages --list test | grep -qE 'libgtest|libbenchmark'; then
  options+=(-DCAIRN_BUILD_TESTS=OFF -DCAIRN_BUILD_BENCHMARKS=OFF)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/build.log
build() {
  cmake --preset release -B $folder "${options[@]}" && cmake --build $folder --target cairn_demo
}

# Minutes of the whole build so far: RocksDB, which CMake brings if the cache folder has none, takes twice as long as the rest.
cores=$(nproc)
minutes_in_all() {
  awk -v seconds="$SECONDS" -v cores="$cores" '
    /^-- Building RocksDB/ { rocksdb = 1 }
    /^-- Configuring done/ { done = rocksdb * 2; part = 0 }
    /^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), step, "[/\\]]"); part = step[1] / step[2] }
    END {
      share = (done + part * (rocksdb && !done ? 2 : 1)) / (rocksdb ? 3 : 1)
      minutes = share > 0.1 ? seconds / share / 60 : (rocksdb ? 10 : 3) / cores
      printf "%d", minutes < seconds / 60 ? seconds / 60 + 1 : minutes + 0.999
    }' "$log"
}
say_each_minute() {
  while sleep $((60 - SECONDS % 60)) >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    echo "about $((SECONDS / 60)) of $(minutes_in_all) minutes"
  done
}
[ -x $folder/bin/cairn_demo ] ||
  echo "Building; the first time on a machine this compiles RocksDB, about $(((10 + cores - 1) / cores)) minutes on $cores cores"
SECONDS=0
: >"$log"
say_each_minute &
ticker=$!
code=0
build >"$log" 2>&1 || code=$?
kill "$ticker"
wait "$ticker" 2>/dev/null || true
if [ "$code" -ne 0 ]; then
  tail -n 40 "$log" >&2
  echo "demo.sh: the build failed; what it said last stands above" >&2
  exit 1
fi

# The databases go there, and go away with it however the program ends.
TMPDIR=$scratch $folder/bin/cairn_demo "${arguments[@]}"
