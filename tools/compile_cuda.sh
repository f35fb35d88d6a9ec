#!/bin/sh
# Runs nvcc and keeps what it tells of each kernel.
#   compile_cuda.sh REPORT NVCC ARGUMENT...
# The report is ptxas' own: registers, shared memory, spills by kernel and architecture; then, from the portable code, by
# kernel, the most threads that a block may have, which ptxas does not tell.
# A kernel without local memory that reads some is refused: nvcc 13.0 has taken pointers to a card's memory for such, where a
# kernel kept references to its own variables. That compiled without a warning, and no emulation can see it.
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
wrong=$(awk '/\.(entry|func) / { name = $0; own = 0 }
             /__local_depot/ { own = 1 }
             /(ld|st)(\.[a-z0-9]+)*\.local/ && !own && !told[name]++ { print name }' "$kept"/*.ptx)
if [ -n "$wrong" ]; then
  printf 'these kernels have no local memory, and nvcc made them read it:\n%s\n' "$wrong" | c++filt >&2
  exit 1
fi
cat "$kept"/*.ptx | sed -nE 's/.*\.entry ([A-Za-z0-9_$]+).*/entry \1/p; s/^\.maxntid ([0-9, ]+)$/maxntid \1/p' >>"$report"
