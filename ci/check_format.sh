#!/bin/sh
# Every C++ file of ours is as clang-format writes it. Names those that are not; `clang-format -i` mends them.
set -eu
cd "$(dirname -- "$0")/.."
bad=$(git ls-files -z '*.cc' '*.h' '*.cu' '*.cuh' ':!third_party' |
  xargs -0 -r -n 8 -P 2 sh -c 'for file; do [ ! -f "$file" ] || clang-format "$file" | cmp -s - "$file" || echo "$file"; done' sh)
[ -z "$bad" ] || { echo "not formatted; run: clang-format -i"; echo "$bad"; }
echo "format: $(git ls-files '*.cc' '*.h' '*.cu' '*.cuh' ':!third_party' | wc -l) files, $(printf %s "$bad" | grep -c . || :) wrong"
[ -z "$bad" ]
