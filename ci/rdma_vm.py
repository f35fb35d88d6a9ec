"""RDMA on a machine that has none: tests in a virtual machine with two soft-RoCE devices and a cable that can be cut.

    bazel run //ci:rdma_vm                             # the cases of .ci/run; -- --list names them, -- NAME.. runs some
    bazel run //ci:rdma_vm -- --all                    # and every layout
    bazel run //ci:rdma_vm -- --shell 'COMMAND'        # anything else; exits as the command does
    bazel test //ci:rdma_vm_test

The machine is QEMU's without the host's help, as the host may be a virtual machine itself: some 20 times as slow, and far
slower in vector instructions, so what trains in it is very small. It runs a Debian kernel, which the first run downloads by
apt-get; what is made of it stays in ~/.cache/sluice/rdma_vm, saved as it stands once it is up, so that a case begins
within a second. Each case has a machine of its own.
"""
import argparse
import os
import pathlib
import re
import sys
import time

import rdma_vm_image
import rdma_vm_machine

_HERE = pathlib.Path(__file__).parent
_FILES = ("framework/comm/verbs_net_test", "framework/train/links_test", "models/gpt/train", "ci/same_checkpoints", "ci/rdma_vm_train.sh",
          "models/gpt/testdata/fixed.txt")
_LIMIT = 60  # seconds of a case
_WORTH_TELLING = re.compile(r" s$|packets|come over TCP|RDMA reads")
_CUT = "for end in 0 1; do /usr/bin/tc qdisc replace dev h$end root netem loss 100%; done"
_MEND = "for end in 0 1; do /usr/bin/tc qdisc del dev h$end root; done"
_LAYOUTS = ("data=2", "model=2", "pipe=2", "data=2 model=2", "data=2 pipe=2", "model=2 pipe=2")
_IN_CI = 2  # of them

# By name: what runs in the machine, and whether .ci/run has it. A case fails by its exit status.
CASES = {
    # Bytes of any size and stride as TCP brings them; a wrong key, a wrong length, a cable that is cut, a rank that goes.
    "transfers": (True, f"SLUICE_RDMA_CUT='{_CUT}' SLUICE_RDMA_MEND='{_MEND}' /payload/verbs_net_test"),
    # A job measures its links by the device that its net will have.
    "links": (True, "/payload/links_test --gtest_filter='*Rdma*'"),
    "loss": (True, """
for end in 0 1; do /usr/bin/tc qdisc add dev h$end root netem loss 1%; done
/payload/verbs_net_test --gtest_filter='*ReadsBring*:*ReadsWait*' || exit 1
lost=$(/usr/bin/tc -s qdisc show | sed -n 's/.*dropped \\([0-9]*\\),.*/\\1/p' | awk '{ sum += $1 } END { print sum }')
echo "$lost packets were lost"
[ "$lost" -gt 0 ]
"""),
    # The cable is cut while two ranks train: they go on over TCP, to the same end.
    "cut": (True, f"""
. /payload/rdma_vm_train.sh
train --mesh=data=2 --steps=8 --out=one >one.printed 2>&1 || fail "one process has ended with $?"
begin two --mesh=data=2 --steps=8
wait_for_packets 100
{_CUT}
wait_all
same one two
grep -h 'come over TCP' two.*.printed || fail 'nobody says that bytes come over TCP'
"""),
    "killed": (True, """
. /payload/rdma_vm_train.sh
begin two --mesh=data=2 --steps=100000
wait_for_packets 100
since=$(now)
kill -9 $(pidof train | tr ' ' '\\n' | while read -r p; do grep -q -e --rank=1 /proc/$p/cmdline && echo $p; done)
wait $rank0 && fail 'rank 0 has ended well'
echo "rank 0 has ended after $(seconds "$since")"
grep -h 'rank 1 has left: lost' two.0.printed || fail 'rank 0 does not say which one is lost'
"""),
    "no_device": (True, """
. /payload/rdma_vm_train.sh
begin two --mesh=data=2 --steps=2 --rdma_device=rxe7
wait $rank0 && fail 'it trains without a device'
grep -h 'no RDMA device "rxe7": this host has rxe0, rxe1; run with --net=tcp' two.0.printed || fail 'expected which devices there are'
"""),
}
for layout in _LAYOUTS:
    CASES["parity " + layout] = (layout in _LAYOUTS[:_IN_CI], f"""
. /payload/rdma_vm_train.sh
layers={2 if "pipe" in layout else 1}  # a stage has one at least
train --mesh='{layout}' --steps=3 --out=one >one.printed 2>&1 || fail "one process has ended with $?"
begin two --mesh='{layout}' --steps=3
wait_all
same one two
wait_for_packets 100
echo "$(packets) packets of RDMA"
""")


def _files():
    """Of Bazel's runfiles, by name."""
    return {os.path.basename(path): _HERE.parent / path for path in _FILES}


def _run_case(name, payload):
    """Whether it went well."""
    result = rdma_vm_machine.run(CASES[name][1], payload, _LIMIT)
    well = result.code == 0 and "SKIPPED" not in result.text
    print(f"{'passed' if well else 'FAILED'}  {result.seconds:6.2f} s  {name}", flush=True)
    for line in result.text.splitlines():
        if not well or _WORTH_TELLING.search(line):
            print("    " + line)
    if not well:
        print(f"    exit status {result.code}")
    return well


def _run_cases(names):
    payload = rdma_vm_machine.Payload(_files())
    try:
        return all([_run_case(name, payload) for name in names])
    finally:
        payload.close()


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of cases")
    parser.add_argument("--all", action="store_true", help="every case")
    parser.add_argument("--list", action="store_true", help="names the cases")
    parser.add_argument("--shell", metavar="COMMAND", help="runs this in the machine, in busybox's shell")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(name + ("" if CASES[name][0] else "   (--all)") for name in CASES))
        return 0
    unknown = [name for name in options.names if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    begun = time.monotonic()
    try:
        folder = rdma_vm_image.image()
    except rdma_vm_image.Missing as missing:
        print(f"SKIPPED: RDMA in a virtual machine: {missing}")
        return 0
    print(f"the virtual machine of {folder} was there after {time.monotonic() - begun:.2f} s", flush=True)
    if options.shell is not None:
        payload = rdma_vm_machine.Payload(_files())
        try:
            return rdma_vm_machine.run(options.shell, payload, _LIMIT, echo=True).code
        finally:
            payload.close()
    names = options.names or [name for name, (quick, _) in CASES.items() if quick or options.all]
    well = _run_cases(names)
    print(f"{len(names)} cases in {time.monotonic() - begun:.1f} s")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
