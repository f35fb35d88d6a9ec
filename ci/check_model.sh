#!/bin/sh
# Lets Spin search every order of the actor protocol's model, docs/actor.pml: first for deadlocks and broken
# assertions, then for each of its ltl properties. At most ten seconds each.
set -eu
model=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)/docs/actor.pml
[ -f "$model" ] || { echo "model: there is no docs/actor.pml"; exit 0; }
command -v spin >/dev/null 2>&1 || { echo "model: not checked, spin is not installed"; exit 0; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
spin -a "$model" >spin.log 2>&1 || { cat spin.log; echo "model: spin cannot read it"; exit 1; }

search() { # search NAME COMPILER_FLAG [SEARCH_FLAG...]
  name=$1
  gcc -O2 -w "$2" -o pan pan.c
  shift 2
  rm -f ./*.trail
  timeout 10 ./pan "$@" >pan.log 2>&1 || { tail -n 20 pan.log; echo "model: $name did not end in ten seconds"; exit 1; }
  if ! grep -q 'errors: 0' pan.log || grep -q 'Search not completed\|max search depth too small' pan.log; then
    cat pan.log
    for trail in ./*.trail; do [ ! -f "$trail" ] || spin -k "$trail" -p -g "$model" | tail -n 60; done
    echo "model: $name is wrong"
    exit 1
  fi
  echo "model: $name: $(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log | head -n 1) states, no error"
}

search "no deadlock, no broken assertion" -DNOCLAIM -m1000000
for property in $(sed -n 's/^ *ltl  *\([A-Za-z_][A-Za-z_0-9]*\).*/\1/p' "$model"); do
  search "ltl $property" -DNFAIR=3 -a -N "$property" -m1000000
done

# The mistakes that the model can be asked to make must be found.
for bug in $(sed -n 's/^#if BUG [!=]= \([0-9]*\).*/\1/p' "$model" | sort -u); do
  spin -DBUG="$bug" -a "$model" >spin.log 2>&1
  gcc -O2 -w -DNOCLAIM -o pan pan.c
  timeout 10 ./pan -m1000000 >pan.log 2>&1 || true
  grep -q 'errors: [1-9]' pan.log || { echo "model: BUG=$bug was not found"; exit 1; }
done
