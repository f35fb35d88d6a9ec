# What cases of rdma_vm.py that train say in the virtual machine: sourced there by busybox's shell.

# A short one, as all that is held out of it is evaluated.
head -c 4000 /payload/fixed.txt >text.txt

# A model that takes a second a step here. oneDNN keeps to instructions that are not a thousand times as slow as on a CPU.
# Processes of other namespaces cannot read each other's memory, so that ranks are as those of two hosts.
train() {
  DNNL_MAX_CPU_ISA=SSE41 $namespace /payload/train --preset=tiny --layers="${layers:-1}" --hidden=32 --heads=2 --sequence_length=16 \
    --batch=4 --data=text.txt --sample_length=0 --eval_every=0 --measure_peak=false "$@"
}

fail() {
  echo "FAILED: $*"
  tail -n 15 ./*.printed
  exit 1
}

# begin OUT ARGUMENTS..: two ranks, each with its device, in the background.
begin() {
  out=$1
  shift
  for rank in 0 1; do
    (
      namespace="unshare -p -f"
      train --ranks=2 --rank=$rank --rendezvous=127.0.0.1:29500 --net=verbs --rdma_device=rxe$rank \
        --ride_along=0 --out="$out" "$@"
    ) >"$out.$rank.printed" 2>&1 &
    eval "rank$rank=$!"
  done
}

wait_all() {
  for process in $rank0 $rank1; do wait "$process" || fail "a rank has ended with $?"; done
}

# Of both devices. What rides along with its token is not among them.
packets() { cat /sys/class/infiniband/rxe*/ports/1/hw_counters/sent_pkts | awk '{ sum += $1 } END { print sum }'; }

# wait_for_packets COUNT: until ranks read each other's memory by RDMA.
wait_for_packets() {
  tries=0
  until [ "$(packets)" -gt "$1" ]; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || fail "expected more than $1 packets of RDMA, got $(packets)"
    usleep 20000
  done
}

# same ONE OTHER: two runs have the same log and the same checkpoints, bit by bit.
same() {
  for run in "$1" "$2"; do sed 's/,"tokens_per_second.*//' "$run/log.jsonl" >"$run.log"; done
  cmp "$1.log" "$2.log" || fail "the logs of $1 and $2 differ"
  for step in "$1"/checkpoints/*; do
    /payload/same_checkpoints "$step" "$2/checkpoints/${step##*/}" || fail "the checkpoints of $1 and $2 differ"
  done
}

# seconds SINCE: with two digits.
seconds() { awk -v since="$1" '{ printf "%.2f s\n", $1 - since }' /proc/uptime; }
now() { cut -d ' ' -f 1 /proc/uptime; }
