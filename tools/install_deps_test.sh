#!/bin/sh
# install_deps.sh against a false dpkg-query, id, sudo and apt-get: what it says, runs and returns.
set -eu
script=$(pwd)/tools/install_deps.sh
cd "$TEST_TMPDIR"
mkdir -p bin
fake() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1"; chmod +x "bin/$1"; }
fake dpkg-query 'echo "alpha=installed beta=config-files "'
fake apt-get 'echo "apt-get $*" >>calls; echo "dlstatus:1:41.5:Retrieving"; echo "pmstatus:beta:80.0:Setting up"; [ ! -f broken ]'
fake sudo 'echo "sudo $*" >>calls; [ "$*" != "-n true" ] || [ -f allowed ]'
PATH=$PWD/bin:$PATH
echo 'alpha  # the first' >all_there
printf '# a list\nalpha  # the first\nbeta   # the second one\n' >one_missing

expect() { # expect STATUS LIST TEXT...: the status, and texts that stderr holds
  status=$1 list=$2
  shift 2
  rm -f calls
  actual=0
  sh "$script" "$list" </dev/null >out 2>err || actual=$?
  [ "$actual" = "$status" ] || { echo "status $actual, expected $status"; cat err; exit 1; }
  [ ! -s out ] || { echo "stdout is not empty"; exit 1; }
  for text; do grep -qF -- "$text" err || { echo "not said: $text"; cat err; exit 1; }; done
}

fake id 'echo 1000'
expect 0 all_there
[ ! -s err ] && [ ! -f calls ] || { echo "not silent when all is there"; exit 1; }

command_line="apt-get update && apt-get install -y --no-install-recommends beta'"
expect 1 one_missing "beta                 the second one" "$command_line"
! grep -q apt-get calls || { echo "installed without being allowed"; exit 1; }

touch allowed
expect 0 one_missing "Installing them with: sudo apt-get install"
grep -q 'sudo env .*apt-get install -y --no-install-recommends beta' calls

fake id 'echo 0'
expect 0 one_missing "Installing them with: apt-get install" "  download 40 %" "  install 80 %"
grep -q '^apt-get install -y --no-install-recommends beta' calls
touch broken
expect 1 one_missing "The installation failed" "$command_line"
echo passed
