"""Finds and runs programs that measure, in turn, several whole processes each. Only the standard library."""

import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

QUIET_CORES = 0.15  # a machine where others use no more is quiet
MISSING_STATUS = 3  # of a peer's script that cannot find its packages; it prints a line "missing: ..."


@dataclass
class Contestant:
    """A program, how its output is read, and what came of it."""
    name: str
    command: list
    read: object  # text -> list of Figure; a ValueError or KeyError is a failure
    timeout: float = 300
    processes: list = field(default_factory=list)  # figures of each process
    trouble: str = ""
    log: list = field(default_factory=list)  # a dict of each process, for the JSON


@dataclass
class Contest:
    """What one group of rows comes of: ours first, then the peers."""
    name: str
    ours: Contestant
    peers: list = field(default_factory=list)
    rounds: int = 3


def workspace():
    """The checkout, under `bazel run` too, where this file is a link into it."""
    return os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def built_programs():
    """The folder of what Bazel built: beside this file under `bazel run`, else in bazel-bin."""
    here = os.path.dirname(os.path.abspath(__file__))
    return here if os.path.exists(os.path.join(here, "gpt_step")) else os.path.join(workspace(), "bazel-bin/bench")


def from_caller(path):
    """A path that the user typed, seen from where `bazel run` was started."""
    return os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", os.getcwd()), os.path.expanduser(path))


def load_average():
    return os.getloadavg()[0]


def _busy_seconds():
    """Of all cores together since the machine was started, taken away by a host too; None where nobody says."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _seconds_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Neighbours:
    """How many cores others used since it was made, beside the children that have ended since."""

    def __init__(self):
        self._busy, self._own, self._began = _busy_seconds(), _seconds_of_children(), time.monotonic()

    def cores(self):
        if self._busy is None:
            return 0.0
        others = _busy_seconds() - self._busy - (_seconds_of_children() - self._own)
        return max(0.0, others / max(time.monotonic() - self._began, 0.1))


def disturbance(contest):
    """The most cores that others used during a process of a contest; 0 where each had the machine for itself."""
    entries = [entry for one in [contest.ours] + contest.peers for entry in one.log]
    most = max([entry.get("others_cores", 0.0) for entry in entries] or [0.0])
    return most if most > QUIET_CORES else 0.0


def last_lines(text, count=6):
    lines = [line for line in text.splitlines() if line.strip()]
    return " | ".join(line.strip()[:200] for line in lines[-count:])


def run_process(contestant):
    """One process; adds its figures, or what went wrong, to the contestant."""
    load, began = load_average(), time.monotonic()
    entry = {"name": contestant.name, "command": contestant.command, "load_average": load}
    contestant.log.append(entry)
    if not os.path.exists(contestant.command[0]):
        contestant.trouble = "failed: %s is not built" % contestant.command[0]
        entry["outcome"] = contestant.trouble
        return
    neighbours = Neighbours()
    # A process group of its own, so that a timeout also ends what the program started.
    process = subprocess.Popen(contestant.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=contestant.timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    entry["seconds"] = time.monotonic() - began
    entry["others_cores"] = round(neighbours.cores(), 2)
    if status is None:
        contestant.trouble = "failed: no end after %d s; %s" % (contestant.timeout, last_lines(err or out))
    elif status == MISSING_STATUS and "missing:" in out:
        line = next(line for line in out.splitlines() if line.startswith("missing:"))
        contestant.trouble = line
    elif status != 0:
        contestant.trouble = "failed: status %d; %s" % (status, last_lines(err or out))
    else:
        try:
            figures = contestant.read(out)
            if not figures:
                raise ValueError("no figures in its output")
            contestant.processes.append(figures)
            entry["figures"] = [figure.__dict__ for figure in figures]
        except (ValueError, KeyError, TypeError) as error:
            contestant.trouble = "failed: %s: %s" % (type(error).__name__, error)
    entry["outcome"] = contestant.trouble or "ok"


class Progress:
    """One line a process, with what is done, of how much, since when."""

    def __init__(self, total, out=sys.stderr):
        self._total, self._done, self._began, self._out = total, 0, time.monotonic(), out

    def line(self, contest, contestant, round_number):
        self._done += 1
        seconds = int(time.monotonic() - self._began)
        print("[%3d/%d %2d:%02d] %s: %s, round %d" % (self._done, self._total, seconds // 60, seconds % 60,
                                                     contest.name, contestant.name, round_number + 1),
              end="", file=self._out, flush=True)

    def outcome(self, contestant):
        entry = contestant.log[-1]
        figures = entry.get("figures", [])
        text = contestant.trouble or "%d figure%s" % (len(figures), "" if len(figures) == 1 else "s")
        print("  %s (%.0f s)" % (text, entry.get("seconds", 0)), file=self._out, flush=True)

    def skip(self, count):
        self._done += count


def processes_of(contests):
    return sum(contest.rounds * (1 + len(contest.peers)) for contest in contests)


def run_contest(contest, progress):
    """Alternates: each round runs each contestant once, ours first. One with trouble is not run again."""
    for round_number in range(contest.rounds):
        for contestant in [contest.ours] + contest.peers:
            if contestant.trouble:
                progress.skip(1)
                continue
            progress.line(contest, contestant, round_number)
            run_process(contestant)
            progress.outcome(contestant)
