#!/bin/sh
# Runs nvcc and keeps what it tells of each kernel.
#   compile_cuda.sh REPORT NVCC ARGUMENT...
# The report is ptxas' own: registers, shared memory, spills by kernel and architecture; then, from the portable code, by
# kernel, the most threads that a block may have, which ptxas does not tell.
set -eu
report=$1
shift
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
"$@" --keep --keep-dir "$kept" 2>"$report" || {
  status=$?
  grep -vE '^ptxas info|^ +[0-9]+ bytes stack frame' "$report" | c++filt >&2 || :
  exit $status
}
cat "$kept"/*.ptx | sed -nE 's/.*\.entry ([A-Za-z0-9_$]+).*/entry \1/p; s/^\.maxntid ([0-9, ]+)$/maxntid \1/p' >>"$report"
