#!/bin/bash
# Fuzzes every parser that reads what others wrote: builds all sluice_fuzz_test targets with libFuzzer and the
# sanitizers, and runs each for so many seconds, from its committed corpus.
#   ci/fuzz.sh [SECONDS [LABEL...]]          default: 60, and all of them
#   RUNS=1000000 ci/fuzz.sh 3600 LABEL...    each ends with so many inputs, if it has not ended before
# Prints a line a target; exits 1 if there were findings, whose inputs it leaves in fuzz-findings/. To make one a
# test, mend the parser and put the input into <package>/testdata/fuzz/<target>/.
set -uo pipefail
cd "$(dirname -- "$0")/.." || exit 1
seconds=${1:-60}
shift
tools/install_deps.sh ci/fuzz-packages.txt </dev/null || exit 1
bazel=${BAZEL:-./bazelw}
if [ $# = 0 ]; then
  # shellcheck disable=SC2046
  set -- $($bazel query --noshow_progress 'attr(tags, "\bfuzz\b", //...)')
fi
[ $# -gt 0 ] || exit 1
$bazel build --config=fuzz "$@" || exit 1
bin=$($bazel info --config=fuzz bazel-bin) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '%-48s %12s %9s %7s  %s\n' target executions "a second" edges findings
failed=0
for label in "$@"; do
  package=${label%:*}
  package=${package#//}
  name=${label##*:}
  mkdir -p "$work/$name" "fuzz-findings/$name"
  # A request for more than 512 MiB is a finding, and so is an input that takes 10 s.
  "$bin/$package/$name" "$work/$name" "$package/testdata/fuzz/$name" -max_total_time="$seconds" -runs="${RUNS:--1}" -timeout=10 \
    -malloc_limit_mb=512 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="fuzz-findings/$name/" >"$work/$name.log" 2>&1
  status=$?
  findings=$(find "fuzz-findings/$name" -type f | wc -l)
  rmdir --ignore-fail-on-non-empty "fuzz-findings/$name"
  printf '%-48s %12s %9s %7s  %s\n' "$label" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")" \
    "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$work/$name.log")" \
    "$(grep -o ' cov: [0-9]*' "$work/$name.log" | tail -n 1 | grep -o '[0-9]*')" "$findings"
  if [ "$status" != 0 ]; then
    failed=$((failed + 1))
    grep -E 'ERROR|runtime error|check failed|SUMMARY|Test unit written' "$work/$name.log" | head -n 8 | sed 's/^/    /'
  fi
done
rmdir fuzz-findings 2>/dev/null
echo "$# targets, $failed with findings"
[ "$failed" = 0 ]
