"""Starts a job of several ranks on this machine: one program, as many processes as are asked for.

  bazel run //tools:launch -- -n 4 -- //models/gpt:train --mesh=data=4
  bazel run //tools:launch -- -n 2 --restarts=3 -- models/gpt:train --mesh=data=2 --out=runs/a
  bazel run //tools:launch -- -n 2 -- ./a_program_of_mine

The program is a label, which is built first, or the path of an executable file. Every rank runs in the folder of the
caller and is told its place by variables (docs/launching.md). What rank 0 prints comes as it is; lines of the others
begin with "[rank 2] ". SIGINT, SIGTERM and SIGHUP go on to all ranks.

If a rank fails, the others get --grace seconds to end by themselves, then SIGTERM, and 5 s later SIGKILL. The exit
code is that of the first rank that failed, 128 and the signal if it was killed; 0 if none did; 2 for a bad command line.
"""

import argparse
import collections
import ctypes
import fcntl
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

_SECONDS_TO_KILL = 5  # between SIGTERM and SIGKILL
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BAD_USE = 2  # exit code of bad flags, ours and the ranks': the same flags would fail again
_PIPE_CHUNK = 4096  # a pipe that poll calls writable takes as much without blocking: PIPE_BUF
_LONGEST_LINE = 1 << 20
_MOST_PENDING = 1 << 20
_MOST_RANKS = 256  # two pipes each, of the 1024 descriptors that a process may usually have
_PR_SET_PDEATHSIG = 1
_VARIABLES = ("SLUICE_RANK", "SLUICE_RANKS", "SLUICE_LOCAL_RANK", "SLUICE_LOCAL_RANKS", "SLUICE_RENDEZVOUS",
              "SLUICE_LISTENER_FD", "SLUICE_SECRET_FD", "SLUICE_RESTARTS")
_LABEL = re.compile(r"(?://)?(?P<package>[\w./+-]*)(?::(?P<name>[\w./+-]+))?")
_libc = ctypes.CDLL(None, use_errno=True)


class Refusal(Exception):
    """Nothing was started. One line for the user, and the exit code."""

    def __init__(self, line, code=_BAD_USE):
        super().__init__(line)
        self.code = code


def _say(text):
    os.write(2, ("launch: %s\n" % text).encode())


class Output:
    """stdout or stderr, shared with rank 0: a reader that stands still holds up neither signals nor the end of ranks."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.pending = collections.deque()
        self.size = 0
        self.broken = False

    def add(self, line):
        if self.broken:
            return
        self.size += len(line)
        if self.pending and len(self.pending[-1]) + len(line) <= _PIPE_CHUNK:
            self.pending[-1] += line
            return
        for start in range(0, len(line), _PIPE_CHUNK):
            self.pending.append(line[start:start + _PIPE_CHUNK])

    def write_one(self):
        """Called when poll says that it would not block."""
        chunk = self.pending.popleft()
        self.size -= len(chunk)
        try:
            written = os.write(self.descriptor, chunk)
        except BlockingIOError:
            written = 0
        except OSError:  # nobody reads any more: the ranks go on, as they would alone
            self.drop()
            return
        if written < len(chunk):
            self.pending.appendleft(chunk[written:])
            self.size += len(chunk) - written

    def drop(self):
        self.broken = True
        self.pending.clear()
        self.size = 0


class Lines:
    """What one rank prints into a pipe, as whole lines with its number before them."""

    def __init__(self, descriptor, rank, output):
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.output = output
        self._prefix = b"[rank %d] " % rank
        self._rest = b""

    def read(self):
        """Takes what is there; False if that was nothing, as after the end."""
        try:
            data = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return False
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self.output.add(self._prefix + line + b"\n")
        return bool(data)

    def finish(self):
        """Takes what the rank had printed as it ended. Not to the end of the pipe: who left its group may still hold it."""
        while self.read():
            pass
        if self._rest:
            self.output.add(self._prefix + self._rest + b"\n")
        os.close(self.descriptor)


class Keeper:
    """A process that outlives the launcher by a moment and kills what the ranks have started.

    The kernel kills the ranks themselves if the launcher is killed (PR_SET_PDEATHSIG); it forgets about their children.
    """

    def __init__(self):
        reading, self._writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._writing)
                self._keep(reading)
            finally:
                os._exit(0)
        os.close(reading)

    @staticmethod
    def _keep(reading):
        os.setsid()  # away from the terminal's signals
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        groups = set()
        with os.fdopen(reading) as words:
            for word in words:
                (groups.discard if word.startswith("-") else groups.add)(abs(int(word)))
        for group in groups:
            _signal_group(group, signal.SIGKILL)

    def add(self, group):
        self._tell(b"%d\n" % group)

    def remove(self, group):
        self._tell(b"-%d\n" % group)

    def _tell(self, word):
        try:
            os.write(self._writing, word)
        except BrokenPipeError:  # somebody has killed it; the job does not depend on it
            pass

    def close(self):
        os.close(self._writing)
        os.waitpid(self._pid, 0)


def _signal_group(group, number):
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # it has ended, or is about to become another user's program
        pass


def split_cores(ranks):
    """The cores of each rank: neighbours, hardware threads of one core together. None: all cores for all."""
    cores = sorted(os.sched_getaffinity(0), key=_core_place)
    if ranks > len(cores):
        return [None] * ranks
    return [cores[rank * len(cores) // ranks:(rank + 1) * len(cores) // ranks] for rank in range(ranks)]


def _core_place(cpu):
    place = []
    for name in ("physical_package_id", "core_id"):
        try:
            with open("/sys/devices/system/cpu/cpu%d/topology/%s" % (cpu, name), encoding="ascii") as file:
                place.append(int(file.read()))
        except (OSError, ValueError):
            place.append(0)
    return place + [cpu]


def make_secret():
    """A descriptor with 32 random bytes that nobody can change: in memory, with no name on any disk."""
    descriptor = os.memfd_create("sluice-secret", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, os.urandom(32))
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return descriptor


class Rank:
    """One process of the job, the leader of a process group of its own."""

    def __init__(self, number, process):
        self.number = number
        self.process = process
        self.lines = []  # of pipes that are still open
        self.code = None  # as subprocess has it: minus the signal
        self.told = None  # the last signal that it got from us for another's failure

    @property
    def exit_code(self):
        return 128 - self.code if self.code < 0 else self.code

    def how(self):
        if self.code < 0:
            return "was killed by signal %d (%s)" % (-self.code, signal.Signals(-self.code).name)
        return "ended with code %d" % self.code

    def has_ended(self):
        """Asks without reaping: until then no other process can get its number, which is also its group's."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def reap(self, keeper):
        _signal_group(self.process.pid, signal.SIGKILL)  # what it has left behind
        keeper.remove(self.process.pid)
        self.code = self.process.wait()
        for lines in self.lines:
            lines.finish()
        self.lines = []


class Attempt:
    """One start of all ranks, until the last has ended."""

    def __init__(self, command, options, folder, restarts, keeper, wakeup):
        self._options = options
        self._keeper = keeper
        self._wakeup = wakeup
        self._outputs = [Output(1), Output(2)]
        self._started = time.monotonic()
        self.seconds = 0.0  # until the first failure
        self.failed = None  # the first rank that did
        self.asked = None  # the last signal that was passed on
        self._next_kill = None  # (time, signal)
        self.ranks = []
        self._start(command, folder, restarts)

    def _start(self, command, folder, restarts):
        cores = split_cores(self._options.ranks) if self._options.cores == "split" else [None] * self._options.ranks
        secret = make_secret()
        # Port 0: the kernel chooses, and nobody can take the port between its choice and rank 0.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(max(128, self._options.ranks))
            try:
                for number in range(self._options.ranks):
                    inherited = {"SLUICE_SECRET_FD": secret}
                    if number == 0:
                        inherited["SLUICE_LISTENER_FD"] = listener.fileno()
                    port = listener.getsockname()[1]
                    environment = rank_environment(number, self._options.ranks, restarts, port, inherited)
                    self._start_rank(number, command, folder, environment, tuple(inherited.values()), cores[number])
            except BaseException:
                self._signal_all(signal.SIGKILL)
                for rank in self.ranks:
                    rank.reap(self._keeper)
                raise
            finally:
                os.close(secret)

    def _start_rank(self, number, command, folder, environment, inherited, cores):
        launcher = os.getpid()

        def prepare():
            os.setpgid(0, 0)  # what a terminal sends comes from us alone, once
            self._keeper.add(os.getpid())  # before it can start anything
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it may print although another group has the terminal
            if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != launcher:
                os._exit(1)
            if cores:
                os.sched_setaffinity(0, cores)

        pipe = subprocess.PIPE if number > 0 else None
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
                                   pass_fds=inherited, preexec_fn=prepare)
        rank = Rank(number, process)
        if number > 0:
            rank.lines = [Lines(os.dup(file.fileno()), number, output)
                          for file, output in zip((process.stdout, process.stderr), self._outputs)]
            process.stdout.close()
            process.stderr.close()
        self.ranks.append(rank)

    def run(self):
        """Until no rank is left and all that they printed is written."""
        while self._living() or any(output.pending for output in self._outputs):
            self._wait()
            self._collect()
            self._hurry()

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
        timeout = None
        if self._next_kill:
            timeout = max(0, 1000 * (self._next_kill[0] - time.monotonic()) + 1)
        for descriptor, _ in poll.poll(timeout):
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

    def _take_signal(self, number):
        if number in _FORWARDED:
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
            _signal_group(rank.process.pid, number)

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
        text = "rank %d %s after %.1f s" % (self.failed.number, self.failed.how(), self.seconds)
        others = [rank for rank in self.ranks if rank is not self.failed]
        parts = []
        for told, words in ((None, "ended by themselves"), (signal.SIGTERM, "ended on SIGTERM"), (signal.SIGKILL, "killed")):
            numbers = ", ".join(str(rank.number) for rank in others if rank.told == told)
            if numbers:
                parts.append("%s: %s" % (words, numbers))
        return text + ("; of the others " + "; ".join(parts) if parts else "")


def rank_environment(number, ranks, restarts, port, inherited):
    """What a rank is told, beside what the caller's environment says; nothing of a launcher around us."""
    environment = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    # Bazel sets it for this script: a rank in Python would find our modules before its own.
    ours, mark, _ = os.path.abspath(__file__).partition(".runfiles/")
    if mark and "PYTHONPATH" in environment:
        paths = [path for path in environment["PYTHONPATH"].split(":") if not path.startswith(ours + ".runfiles")]
        environment["PYTHONPATH"] = ":".join(paths)
    environment.update({
        "SLUICE_RANK": str(number),
        "SLUICE_RANKS": str(ranks),
        "SLUICE_LOCAL_RANK": str(number),
        "SLUICE_LOCAL_RANKS": str(ranks),
        "SLUICE_RENDEZVOUS": "127.0.0.1:%d" % port,
        "SLUICE_RESTARTS": str(restarts),
    })
    environment.update({name: str(descriptor) for name, descriptor in inherited.items()})
    return environment


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
                     allow_abbrev=False, usage="launch -n RANKS [flags] -- PROGRAM [its arguments]")
    parser.add_argument("-n", "--ranks", type=_number(int, 1, _MOST_RANKS), required=True, help="how many processes")
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
    for number in _FORWARDED + (signal.SIGCHLD, signal.SIGTSTP):
        # nohup stays nohup.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    return reading


def run_job(options, command, folder):
    keeper = Keeper()
    wakeup = _catch_signals()
    try:
        restarts = 0
        while True:
            attempt = Attempt(command, options, folder, restarts, keeper, wakeup)
            attempt.run()
            if attempt.failed is None:
                return 0
            code = attempt.failed.exit_code
            again = code != _BAD_USE and attempt.asked is None and restarts < options.restarts
            restarts += again
            if not attempt.as_asked():
                _say(attempt.summary() + ("; restart %d of %d" % (restarts, options.restarts) if again else ""))
            if not again:
                return code
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


def main(arguments):
    _open_standard_descriptors()
    try:
        options = parse(arguments)
        folder = os.environ.get("BUILD_WORKING_DIRECTORY") or os.getcwd()
        path = find_program(options.program[0], folder, os.environ.get("BUILD_WORKSPACE_DIRECTORY"))
        return run_job(options, [path] + options.program[1:], folder)
    except Refusal as error:
        _say(str(error))
        return error.code
    except (OSError, subprocess.SubprocessError) as error:
        _say("cannot start %s: %s" % (options.program[0], error))
        return _BAD_USE
    except KeyboardInterrupt:  # while the program was built; later signals are the ranks'
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
