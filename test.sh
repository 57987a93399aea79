#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test and check.
#
#   ./test.sh                everything but the sanitizers
#   ./test.sh --quick        leaves out the tests labelled "long", RocksDB's own programs, clang-tidy and the fuzzers
#   ./test.sh --sanitizers   also builds and runs under address, undefined-behaviour and thread sanitizers; each takes a RocksDB
#                            of its own, about 6 minutes on two cores the first time
#   ./test.sh --tidy-all     clang-tidy over every file, without the time limit
#   ./test.sh --rocksdb=11.8 everything that builds and runs code, with that RocksDB, in build-rocksdb. It is 11.8, which
#                            scripts/fetch_rocksdb brings, or a folder or an archive with another
#   ./test.sh --slice        with --rocksdb: the library and the tests of test/newer_slice, nothing else
#   ./test.sh ... -- ARGS    ARGS go to ctest, for example: ./test.sh --quick -- -R Column
#
# Prints a line a minute; everything else goes to build/test.log (test-rocksdb.log). Ends with the last lines of
# each part that failed, a summary, and a line "N passed, N failed" that counts parts and tests; exit code 1 if any failed. A part
# that fails does not keep the others from running.
set -uo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
# shellcheck source=scripts/needs_cargo.sh
. scripts/needs_cargo.sh
export LC_ALL=C.UTF-8
# One more than there are cores: a third of all test time is waiting.
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$(($(nproc) + 1))}"

quick=false
sanitizers=false
tidy=(--budget 180)
rocksdb=
slice=false
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=true ;;
    --sanitizers) sanitizers=true ;;
    --tidy-all) tidy=() ;;
    --rocksdb=?*) rocksdb=${1#*=} ;;
    --slice) slice=true ;;
    --) shift; break ;;
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "test.sh: unknown argument $1; --help lists them" >&2; exit 2 ;;
  esac
  shift
done
if $slice && [ -z "$rocksdb" ]; then
  echo "test.sh: --slice goes with --rocksdb: ./test.sh --rocksdb=11.8 --slice" >&2
  exit 2
fi
case $rocksdb in '' | /*) ;; *) [ ! -e "$called_from/$rocksdb" ] || rocksdb=$called_from/$rocksdb ;; esac
ctest_args=("$@")
$quick && ctest_args+=(-LE long)

log=build/test.log
[ -z "$rocksdb" ] || log=build/test-rocksdb.log
mkdir -p build && : >"$log" || exit 1
echo "test.sh: full output in $log"

passed_parts=() failed_parts=() left_out=()
passed=0 failed=0 skipped=0
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT

# What a part is at, from the last line of its output: "12 of 440 tests", or the line.
progress() {
  tail -n 1 "$outputs/last" | tr '\r' '\n' | tail -n 1 | sed -E 's,^ *\[([0-9]+)/([0-9]+)\].*,\1 of \2 steps,
    s,^ *([0-9]+)/([0-9]+) Test.*,\1 of \2 tests,' | cut -c 1-100
}
# Once a minute since test.sh began, whatever runs. The sleep outlives it, and may not keep a reader of our output waiting.
say_each_minute() {
  while sleep $((60 - SECONDS % 60)) >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    printf '%3d min: %s: %s\n' $((SECONDS / 60)) "$1" "$(progress)"
  done
}
# Adds what ctest says of its tests at its end; fails if it has run none that failed.
count_tests() {
  local bad all left
  read -r bad all <<<"$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$outputs/last" | tail -n 1)"
  [ -n "${all:-}" ] || return 1
  left=$(grep -cE '^\s+[0-9]+ - \S+ \(Skipped\)$' "$outputs/last")
  passed=$((passed + all - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
  [ "$bad" -gt 0 ]
}
part() {
  local name=$1 start=$SECONDS ticker code=0
  shift
  echo "=== $name" >>"$log"
  : >"$outputs/last"
  say_each_minute "$name" &
  ticker=$!
  "$@" 2>&1 | tee -a "$log" >"$outputs/last" || code=1
  kill "$ticker"
  wait "$ticker" 2>/dev/null
  if count_tests && [ $code = 1 ]; then
    failed=$((failed - 1))  # its tests are counted instead
  fi
  if [ $code = 0 ]; then
    passed=$((passed + 1))
    passed_parts+=("$name $((SECONDS - start)) s")
  else
    failed=$((failed + 1))
    failed_parts+=("$name")
    # Its end, and the first of what failed, last: CI may show few lines.
    {
      tail -n 40 "$outputs/last"
      # What a test was at that ended after its time.
      awk '/^ +Start +[0-9]+:|^ *[0-9]+\/[0-9]+ Test|^[0-9]+% tests/ { if (hung != "") print hung, at; hung = at = "" }
           /\*\*\*Timeout/ { hung = $4 }
           /^\[ +(RUN|OK|FAILED|SKIPPED) / { at = $2 == "RUN" ? $0 : "" }' "$outputs/last"
      grep -hE -A 3 ': Failure$|ERROR: |Assertion|terminate called|(error|warning): ' "$outputs/last" | head -n 12 | cut -c 1-200
    } >"$outputs/${#failed_parts[@]}"
  fi
  return $code
}
leave_out() {
  skipped=$((skipped + 1))
  left_out+=("$1 ($2)")
}

# Joined by commas.
list() {
  local joined
  printf -v joined '%s, ' "$@"
  echo "${joined%, }"
}
summary() {
  echo "=== summary after $(((SECONDS + 30) / 60)) minutes; full output in $log"
  [ ${#passed_parts[@]} -eq 0 ] || echo "passed: $(list "${passed_parts[@]}")"
  [ ${#left_out[@]} -eq 0 ] || echo "left out: $(list "${left_out[@]}")"
  [ ${#failed_parts[@]} -eq 0 ] || echo "FAILED: $(list "${failed_parts[@]}")"
  if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
}
finish() {
  local i
  for ((i = 1; i <= ${#failed_parts[@]}; ++i)); do
    echo "=== how ${failed_parts[i - 1]} ended"
    cat "$outputs/$i"
  done
  summary | tee -a "$log"
  [ ${#failed_parts[@]} -eq 0 ] || exit 1
  exit 0
}

build_and_test() {
  local preset=$1
  part "build $preset" scripts/build "$preset" || return
  part "test $preset" ctest --preset "$preset" "${ctest_args[@]}"
}

# The same on another RocksDB, in a folder of its own.
# shellcheck disable=SC2317  # called by part
build_on() {
  local folder=$1 preset=$2 source=$3
  cmake --preset "$preset" -B "$folder" -DCAIRN_ROCKSDB_SOURCE="$source" && cmake --build "$folder"
}
build_and_test_on() {
  local preset=$1 source=$2 folder=build-rocksdb
  [ "$preset" = release ] || folder=build-rocksdb-$preset
  part "build $preset on $(basename "$source")" build_on "$folder" "$preset" "$source" || return
  part "test $preset on $(basename "$source")" ctest --test-dir "$folder" --output-on-failure --no-tests=error "${ctest_args[@]}"
  [ "$preset" != release ] || from_release_to_release "$folder"
}
# Databases go from one release to the other and back, where there is the default one's build.
from_release_to_release() {
  [ ! -e build/test/dropin_program ] || part "from release to release" test/dropin/releases build "$1"
}

# The slice for a review: RocksDB, the library and few tests, each part with its time.
test_slice() {
  local folder=build-rocksdb tests targets test
  mapfile -t tests < <(grep -v '^#' test/newer_slice)
  targets=(dropin_program plain_rocksdb)
  for test in "${tests[@]}"; do
    [ "$test" = dropin ] || targets+=("$test")
  done
  part "RocksDB $(basename "$rocksdb")" cmake --preset release -B "$folder" -DCAIRN_ROCKSDB_SOURCE="$rocksdb" || return
  part "library" cmake --build "$folder" --target rocksdb || return
  part "build slice" cmake --build "$folder" --target "${targets[@]}" || return
  part "test slice" ctest --test-dir "$folder" --output-on-failure --no-tests=error -R "^($(IFS='|' && echo "${tests[*]}"))(_[0-9]+)?\$" \
    "${ctest_args[@]}"
  from_release_to_release "$folder"
}

if [ -n "$rocksdb" ]; then
  part "packages" scripts/install_packages test || finish
  needs_cargo "$rocksdb" && { part "cargo" scripts/install_packages cargo || finish; }
  if $slice; then
    test_slice
    finish
  fi
  build_and_test_on release "$rocksdb"
  if $sanitizers; then
    build_and_test_on asan "$rocksdb"
    build_and_test_on tsan "$rocksdb"
  fi
  finish
fi

profile="fuzz"
if $quick; then profile="test"; fi
part "packages" scripts/install_packages "$profile" || finish
part "shellcheck" scripts/check_shell
part "clang-format" scripts/check_format
part "pages" scripts/check_pages
part "unity" scripts/check_unity
build_and_test release
if ! $quick; then
  part "RocksDB's programs" test/upstream/run ci
fi
# With empty caches, or on a slow machine, 17 minutes have gone here, and what takes as long as it is given gets less.
fuzz_seconds=ci
if [ "$SECONDS" -gt 1020 ]; then
  fuzz_seconds=3
  [ ${#tidy[@]} -eq 0 ] || tidy=(--budget 60)
fi
if [ -f build/compile_commands.json ] && ! $quick; then
  part "clang-tidy" scripts/check_tidy "${tidy[@]}" build
fi
if ! $quick; then
  if test/fuzz/run --compiler >/dev/null; then
    part "fuzz" test/fuzz/run "$fuzz_seconds"
  else
    leave_out fuzz "no clang with libFuzzer"
  fi
fi
if $sanitizers; then
  build_and_test asan
  build_and_test tsan
fi
finish
