"""Starts a job of several ranks, on this machine or on hosts: one program, as many processes as are asked for.

  bazel run //tools:launch -- -n 4 -- //models/gpt:train --mesh=data=4
  bazel run //tools:launch -- -n 2 --restarts=3 -- models/gpt:train --mesh=data=2 --out=runs/a
  bazel run //tools:launch -- -n 2 -- ./a_program_of_mine
  bazel run //tools:launch -- --hosts=FILE -- //models/gpt:train --mesh=data=4 --data=/data/text --out=/shared/run

The program is a label, which is built first, or the path of an executable file. Every rank runs in the folder of the
caller and is told its place by variables (docs/launching.md). What rank 0 prints comes as it is; lines of the others
begin with "[rank 2] ". SIGINT, SIGTERM and SIGHUP go on to all ranks.

FILE has a line a host, `NAME [slots=N] [address=IP]`, N ranks on each. The program is copied there by ssh; what it
reads, and the folder, has to be there, and --out to be one folder for all.

If a rank fails, the others get --grace seconds to end by themselves, then SIGTERM, and 5 s later SIGKILL. The exit
code is that of the first rank that failed, 128 and the signal if it was killed; 0 if none did; 2 for a bad command line.
"""

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from launch_agent import BAD_USE, BEAT
from launch_hosts import REMOTE_SHELL, HostRanks, read_hosts
from launch_ranks import FORWARDED, Keeper, LocalRanks, Output, Refusal

_SECONDS_TO_KILL = 5  # between SIGTERM and SIGKILL
# What fails within so many seconds of its start, more than twice in a row, begins again only after half a second, then one,
# two and so on: a disk that is full for a while, or a host that comes back, would else use up all restarts at once.
_QUICK, _AT_ONCE, _FIRST_PAUSE, _MOST_PAUSE = 3.0, 2, 0.5, 30.0
_MOST_PENDING = 1 << 20
_MOST_RANKS = 256  # three pipes each, of the 1024 descriptors that a process may usually have
_LABEL = re.compile(r"(?://)?(?P<package>[\w./+-]*)(?::(?P<name>[\w./+-]+))?")


def _say(text):
    os.write(2, ("launch: %s\n" % text).encode())


class Attempt:
    """One start of all ranks, until the last has ended."""

    def __init__(self, starter, options, restarts, keeper, wakeup):
        self._options = options
        self._keeper = keeper
        self._wakeup = wakeup
        self._outputs = [Output(1), Output(2)]
        self._started = time.monotonic()
        self.seconds = 0.0  # until the first failure
        self.failed = None  # the first rank that did
        self.asked = None  # the last signal that was passed on
        self._next_kill = None  # (time, signal)
        self._next_beat = self._started
        self.ranks = []
        try:
            for rank in starter.start(restarts, self._outputs, keeper):
                self.ranks.append(rank)
        except BaseException:
            self._signal_all(signal.SIGKILL)
            for rank in self.ranks:
                rank.reap(keeper)
            raise

    def run(self):
        """Until no rank is left and all that they printed is written."""
        while self._living() or any(output.pending for output in self._outputs):
            self._wait()
            self._collect()
            self._hurry()
            self._beat()

    def _living(self):
        return [rank for rank in self.ranks if rank.code is None]

    def _wait(self):
        """Until something can be read or written, a signal comes, or it is time to kill."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        readers, writers = {}, {}
        for rank in self.ranks:
            for lines in rank.lines:
                if lines.output.size < _MOST_PENDING:
                    readers[lines.descriptor] = (rank, lines)
        for output in self._outputs:
            if output.pending:
                writers[output.descriptor] = output
        for descriptor in readers:
            poll.register(descriptor, select.POLLIN)
        for descriptor in writers:
            poll.register(descriptor, select.POLLOUT)
        for descriptor, _ in poll.poll(self._timeout()):
            if descriptor in writers:
                writers[descriptor].write_one()
            elif descriptor in readers:
                rank, lines = readers[descriptor]
                if not lines.read():
                    lines.finish()
                    rank.lines.remove(lines)
            else:
                for number in os.read(self._wakeup, 4096):
                    self._take_signal(number)

    def _timeout(self):
        """Milliseconds until something is due."""
        times = [self._next_kill[0]] if self._next_kill else []
        if self._options.hosts:
            times.append(self._next_beat)
        return max(0, 1000 * (min(times) - time.monotonic()) + 1) if times else None

    def _beat(self):
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + BEAT
            for rank in self._living():
                rank.beat()

    def _take_signal(self, number):
        if number in FORWARDED:
            self.asked = number
            self._signal_all(number)
            if not self._living():  # nobody reads what they have left
                for output in self._outputs:
                    output.drop()
        elif number == signal.SIGTSTP:
            self._signal_all(signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
            self._signal_all(signal.SIGCONT)

    def _signal_all(self, number):
        for rank in self._living():
            rank.signal(number)

    def _collect(self):
        ended = [rank for rank in self._living() if rank.has_ended()]
        for rank in ended:
            rank.reap(self._keeper)
        # A killed rank is the reason why others fail, not the other way round, if both are seen at once.
        failures = sorted((rank for rank in ended if rank.code != 0), key=lambda rank: (rank.code > 0, rank.number))
        if failures and self.failed is None:
            self.failed = failures[0]
            self.seconds = time.monotonic() - self._started
            self._next_kill = (time.monotonic() + self._options.grace, signal.SIGTERM)

    def _hurry(self):
        if not self._next_kill or time.monotonic() < self._next_kill[0]:
            return
        number = self._next_kill[1]
        for rank in self._living():
            rank.told = number
        self._signal_all(number)
        self._next_kill = None
        if number == signal.SIGTERM:
            self._next_kill = (time.monotonic() + _SECONDS_TO_KILL, signal.SIGKILL)

    def as_asked(self):
        """Whether the failure is what a signal that was passed on does to programs."""
        return self.asked is not None and self.failed.exit_code == 128 + self.asked

    def summary(self):
        """What became of the ranks, as one line."""
        text = "%s %s after %.1f s" % (self.failed.name, self.failed.how(), self.seconds)
        others = [rank for rank in self.ranks if rank is not self.failed]
        parts = []
        for told, words in ((None, "ended by themselves"), (signal.SIGTERM, "ended on SIGTERM"), (signal.SIGKILL, "killed")):
            numbers = ", ".join(str(rank.number) for rank in others if rank.told == told)
            if numbers:
                parts.append("%s: %s" % (words, numbers))
        return text + ("; of the others " + "; ".join(parts) if parts else "")


def find_program(word, folder, workspace):
    """The path of the program: a label's, which is built, or a file's."""
    path = os.path.join(folder, word)
    label = _LABEL.fullmatch(word)
    if not word.startswith("//") and (":" not in word or os.path.exists(path)):
        if "/" not in word and not os.path.exists(path):
            path = shutil.which(word) or path
        if not os.path.isfile(path):
            raise Refusal("%s: expected a program or a label such as //models/gpt:train, and there is no such file" % word)
        if not os.access(path, os.X_OK):
            raise Refusal("%s: expected a program, and the file is not executable" % word)
        return path
    if not label:
        raise Refusal("%s: expected a label such as //models/gpt:train" % word)
    if not workspace:
        raise Refusal("%s: a label can be built under `bazel run` alone; give the path of a program" % word)
    package = label["package"].lstrip("/")
    bazel = os.path.join(workspace, "bazelw")
    built = subprocess.run([bazel, "build", word], cwd=workspace, stdin=subprocess.DEVNULL, stdout=2, check=False)
    if built.returncode != 0:
        raise Refusal("%s: could not be built; bazel ended with code %d" % (word, built.returncode), code=1)
    output = subprocess.run([bazel, "info", "bazel-bin"], cwd=workspace, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            check=True).stdout
    path = os.path.join(os.fsdecode(output).strip(), package, label["name"] or os.path.basename(package))
    if not os.access(path, os.X_OK):
        raise Refusal("%s: expected the label of a program; its build has made no %s" % (word, path))
    return path


class _Parser(argparse.ArgumentParser):

    def error(self, message):
        raise Refusal(message + " (--help says more)")


def _number(kind, least, most):
    def read(text):
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise argparse.ArgumentTypeError("expected a number from %d to %d, got %r" % (least, most, text))
        return number
    return read


def parse(arguments):
    parser = _Parser(prog="launch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                     allow_abbrev=False, usage="launch -n RANKS | --hosts=FILE [flags] -- PROGRAM [its arguments]")
    parser.add_argument("-n", "--ranks", type=_number(int, 1, _MOST_RANKS),
                        help="how many processes (default: as many as --hosts has slots)")
    parser.add_argument("--hosts", metavar="FILE", help="the list of hosts to start them on (default: this machine)")
    parser.add_argument("--folder", help="where they run on the hosts (default: the folder of the caller)")
    parser.add_argument("--remote_shell", default=REMOTE_SHELL, metavar="COMMAND",
                        help="is given a host's name and a line for its shell there (default: %(default)s)")
    parser.add_argument("--restarts", type=_number(int, 0, 1000000), default=0,
                        help="how often all ranks are begun again after one has failed, from 0; not after exit code 2, which is "
                        "that of bad flags, nor after a signal (default: 0)")
    parser.add_argument("--grace", type=_number(float, 0, 1000000), default=10.0, metavar="SECONDS",
                        help="how long the others may take to end by themselves after one has failed (default: 10)")
    parser.add_argument("--cores", choices=("split", "all"), default="split",
                        help="split: each rank runs on its own share of this machine's cores, where there is one for each. It "
                        "makes as many threads as it has cores: ranks that all believe to have the whole machine get in each "
                        "other's way at every step. all: every rank may run anywhere (default: split)")
    parser.add_argument("program", nargs="...", metavar="PROGRAM", help="a label or a path, and what the program is told")
    options = parser.parse_args(arguments)
    options.hosts = read_hosts(options.hosts) if options.hosts else []
    slots = sum(host.slots for host in options.hosts)
    if not options.hosts and options.ranks is None:
        parser.error("the following arguments are required: -n/--ranks")
    if not options.hosts and options.folder:
        raise Refusal("argument --folder: expected --hosts beside it, got none")
    options.ranks = options.ranks or slots
    if options.hosts and options.ranks > min(slots, _MOST_RANKS):
        raise Refusal("--hosts has %d slots: expected at most %d ranks, got %d (-n says how many)"
                      % (slots, min(slots, _MOST_RANKS), options.ranks))
    if options.program[:1] == ["--"]:
        del options.program[0]
    if not options.program:
        raise Refusal("expected a program after --, got none (--help says more)")
    return options


def _catch_signals():
    """A descriptor that every signal writes its number into, so that the one loop sees them in order."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in FORWARDED + (signal.SIGCHLD, signal.SIGTSTP):
        # nohup stays nohup.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    return reading


def pause_before_restart(quick):
    """Seconds to wait after so many quick failures in a row."""
    return 0.0 if quick <= _AT_ONCE else min(_MOST_PAUSE, _FIRST_PAUSE * 2.0**min(quick - _AT_ONCE - 1, 10))


def _pause(wakeup, seconds):
    """Waits; the signal that ended it before, or None."""
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    ends = time.monotonic() + seconds
    while True:
        left = ends - time.monotonic()
        if left <= 0:
            return None
        if not poll.poll(1000 * left + 1):
            continue
        for number in os.read(wakeup, 4096):
            if number in FORWARDED:
                return number
            if number == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)


def run_job(options, starter):
    keeper = Keeper()
    wakeup = _catch_signals()
    try:
        restarts = quick = 0
        while True:
            attempt = Attempt(starter, options, restarts, keeper, wakeup)
            attempt.run()
            if attempt.failed is None:
                return 0
            code = attempt.failed.exit_code
            again = code != BAD_USE and attempt.asked is None and restarts < options.restarts
            restarts += again
            quick = quick + 1 if attempt.seconds < _QUICK else 0
            seconds = pause_before_restart(quick)
            if not attempt.as_asked():
                _say(attempt.summary() + ("; restart %d of %d" % (restarts, options.restarts) if again else "") +
                     (" in %g s" % seconds if again and seconds else ""))
            if not again:
                return code
            number = _pause(wakeup, seconds) if seconds else None
            if number is not None:
                return 128 + number
    finally:
        keeper.close()


def _open_standard_descriptors():
    """Those that the caller had closed lead nowhere; else a pipe to a rank would get their numbers."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor < 2:
        os.set_inheritable(descriptor, True)
        descriptor = os.dup(descriptor)
    if descriptor == 2:
        os.set_inheritable(descriptor, True)
    else:
        os.close(descriptor)


def _starter(options, command, folder):
    if not options.hosts:
        return LocalRanks(command, options.ranks, options.cores, folder)
    starter = HostRanks(options.hosts, options, command, folder)
    starter.copy_program()
    return starter


def main(arguments):
    _open_standard_descriptors()
    try:
        options = parse(arguments)
        folder = os.environ.get("BUILD_WORKING_DIRECTORY") or os.getcwd()
        path = find_program(options.program[0], folder, os.environ.get("BUILD_WORKSPACE_DIRECTORY"))
        return run_job(options, _starter(options, [path] + options.program[1:], folder))
    except Refusal as error:
        _say(str(error))
        return error.code
    except (OSError, subprocess.SubprocessError) as error:
        _say("cannot start %s: %s" % (options.program[0], error))
        return BAD_USE
    except KeyboardInterrupt:  # while the program was built; later signals are the ranks'
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
