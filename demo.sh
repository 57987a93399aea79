#!/usr/bin/env bash
# Stores the distribution's package index, over a million small items, in leveled RocksDB, universal RocksDB and the trie,
# reads all of it back, compares it byte by byte, and prints what each of them cost.
#
#   ./demo.sh                 installs what is missing, builds, runs; under two minutes once built
#   ./demo.sh --items=N       made-up items with the index's sizes instead
#   ./demo.sh --file=TSV      your own items: one a line, key, tab, value
#   ./demo.sh --json=FILE     also writes the figures there
#   ./demo.sh --help          every flag of build/bin/cairn_demo
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C.UTF-8

scripts/install_packages build

# What only the tests need is not asked for: a machine without it builds without them. test.sh turns them on again.
options=()
if scripts/install_packages --list test | grep -qE 'libgtest|libbenchmark'; then
  options=(-DCAIRN_BUILD_TESTS=OFF -DCAIRN_BUILD_BENCHMARKS=OFF)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build() {
  cmake --preset release "${options[@]}" && cmake --build --preset release --target cairn_demo
}
if [ -x build/bin/cairn_demo ]; then
  build >"$scratch/build.log" 2>&1 || {
    tail -n 40 "$scratch/build.log" >&2
    echo "demo.sh: the build failed; what it said last stands above" >&2
    exit 1
  }
else
  echo "Building; the first time on a machine this compiles RocksDB, some minutes"
  build || {
    echo "demo.sh: the build failed; what is missing stands above" >&2
    exit 1
  }
fi

# The databases go there, and go away with it however the program ends.
TMPDIR=$scratch build/bin/cairn_demo "$@"
