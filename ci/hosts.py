"""Four hosts on one machine, each with a network of its own, and a job over them to which networks do what they do.

    bazel run //ci:hosts                       # all cases, some minutes; needs root
    bazel run //ci:hosts -- kill ssh           # some; --list names them
    bazel run //ci:hosts -- --all              # every layout of every model over bad links, and nothing else
    bazel run //ci:hosts -- --hosts=FILE -- //models/gpt:train --mesh=data=4 ...     # real hosts: //tools:launch does it
    bazel test //ci:hosts_test                 # the quick cases; .ci/run has it

The hosts are network namespaces, joined by a switch that delays, loses and cuts (hosts_network.py). A job is started on them as on
real ones, by //tools:launch --hosts, with `nsenter` for a remote shell, or in one case ssh with a server on each. What it writes
has to be bit by bit what one process writes; or it has to end in time on every host, with an error that names the rank that is
at fault, and leave neither process nor port.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from chaos_job import Failure
from hosts_cases import CASES, LAYOUTS, QUICK, Lab, train_layout
from hosts_network import Network


def _find(path):
    for base in (pathlib.Path.cwd(), pathlib.Path(__file__).absolute().parent.parent):
        for place in (base / path, base / "bazel-bin" / path):
            if place.is_file():
                return str(place.absolute())
    raise SystemExit(f"hosts: {path} is not beside this program; start it with bazel")


class _Programs(dict):
    """Trainers by model, the launcher, and a text to learn; the test has some of the trainers alone."""

    def __missing__(self, name):
        if name == "launch":
            return [sys.executable, _find("tools/launch.py")]
        return _find("models/gpt/testdata/fixed.txt" if name == "text" else f"models/{name}/train")


def _missing():
    """What this machine has not, or "" """
    missing = [program for program in ("ip", "nsenter", "ss", "unshare") if not shutil.which(program)]
    if missing:
        return f"{', '.join(missing)} are not installed"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        Network(1).close()
    except OSError as error:
        return str(error)
    return ""


def _run(name, folder, case):
    """Whether it went well."""
    begin, lab, failure = time.monotonic(), Lab(_Programs(), pathlib.Path(folder) / name), ""
    try:
        case(lab)
    except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        failure = f"FAILED: {type(error).__name__}: {error}\n    its folder: {lab.folder}"
    finally:
        lab.close()
    outcome = failure or (f"SKIPPED: //ci:hosts: {lab.skipped}" if lab.skipped else "ok")
    notes = "".join(f"\n    {note}" for note in lab.notes)
    print(f"{name} ({time.monotonic() - begin:.1f} s): {outcome}{notes}", flush=True)
    return not failure


def _run_layouts(folder, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda item: _run(f"layout-{item[0]}", folder, lambda lab: train_layout(lab, item[1])),
                             enumerate(LAYOUTS, 1)))


def main(arguments):
    if any(word.startswith("--hosts") for word in arguments[:1]):
        launch = _Programs()["launch"]
        os.execv(launch[0], [*launch, *arguments])
    parser = argparse.ArgumentParser(prog="hosts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the cases of the test")
    parser.add_argument("--all", action="store_true", help="all layouts of all models, over links of 20 ms that lose a hundredth")
    parser.add_argument("--jobs", type=int, default=4, help="of --all: layouts at once (default: 4)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"expected cases of --list, got {', '.join(unknown)}")
    if options.list:
        print("\n".join(f"{name:20s} {case.__doc__.splitlines()[0]}" for name, case in CASES.items()))
        return 0
    trouble = _missing()
    if trouble:
        print(f"SKIPPED: //ci:hosts: {trouble}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left
    folder = tempfile.mkdtemp(prefix="hosts-")
    begin = time.monotonic()
    if options.all:
        went_well = _run_layouts(folder, options.jobs)
    else:
        went_well = [_run(name, folder, CASES[name]) for name in options.cases or (QUICK if options.quick else CASES)]
    print(f"{sum(went_well)} of {len(went_well)} right, in {time.monotonic() - begin:.0f} s", flush=True)
    if not all(went_well):
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
