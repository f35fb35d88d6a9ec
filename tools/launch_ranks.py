"""Ranks as the launcher sees them: processes of this machine that it starts, what they print, what is left of them."""

import collections
import os
import signal
import subprocess

import launch_agent
from launch_agent import BAD_USE, has_ended, signal_group

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PIPE_CHUNK = 4096  # a pipe that poll calls writable takes as much without blocking: PIPE_BUF
_LONGEST_LINE = 1 << 20


class Refusal(Exception):
    """Nothing was started. One line for the user, and the exit code."""

    def __init__(self, line, code=BAD_USE):
        super().__init__(line)
        self.code = code


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
    """What one rank prints into a pipe, as whole lines with its number before them, of rank 0 without."""

    def __init__(self, descriptor, rank, output, greet=None):
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.output = output
        self._prefix = b"[rank %d] " % rank if rank > 0 else b""
        self._rest = b""
        self._greet = greet  # called with the first line, which is not the rank's

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
        if self._greet and lines:
            greet, self._greet = self._greet, None
            greet(lines.pop(0))
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
        for number in FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        groups = set()
        with os.fdopen(reading) as words:
            for word in words:
                (groups.discard if word.startswith("-") else groups.add)(abs(int(word)))
        for group in groups:
            signal_group(group, signal.SIGKILL)

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


class Rank:
    """One process of the job, the leader of a process group of its own."""

    def __init__(self, number, process):
        self.number = number
        self.process = process
        self.name = "rank %d" % number
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

    def read_pipes(self, outputs, greet=None):
        """Hands on what comes through the pipes of its process; `greet` gets the first line."""
        self.lines = [Lines(os.dup(file.fileno()), self.number, output, one_greet)
                      for file, output, one_greet in zip((self.process.stdout, self.process.stderr), outputs, (greet, None))]
        self.process.stdout.close()
        self.process.stderr.close()

    def signal(self, number):
        signal_group(self.process.pid, number)

    def beat(self):
        """Says that the launcher lives, where the kernel does not."""

    def has_ended(self):
        return has_ended(self.process.pid)

    def reap(self, keeper):
        signal_group(self.process.pid, signal.SIGKILL)  # what it has left behind
        keeper.remove(self.process.pid)
        self.code = self.process.wait()
        for lines in self.lines:
            lines.finish()
        self.lines = []


class LocalRanks:
    """Starts all ranks on this machine."""

    def __init__(self, command, ranks, cores, folder):
        self._command, self._ranks, self._folder = command, ranks, folder
        self._cores = launch_agent.split_cores(ranks) if cores == "split" else [None] * ranks

    def start(self, restarts, outputs, keeper):
        """Yields them, one after another."""
        secret = launch_agent.make_secret(os.urandom(32))
        listener = launch_agent.listen("127.0.0.1", self._ranks)
        rendezvous = "127.0.0.1:%d" % listener.getsockname()[1]
        try:
            for number in range(self._ranks):
                place = {"rank": number, "ranks": self._ranks, "local_rank": number, "local_ranks": self._ranks,
                         "rendezvous": rendezvous, "restarts": restarts}
                inherited = {"SLUICE_SECRET_FD": secret}
                if number == 0:
                    inherited["SLUICE_LISTENER_FD"] = listener.fileno()
                pipe = subprocess.PIPE if number > 0 else None
                environment = launch_agent.rank_environment(_own_environment(), place, inherited)
                rank = Rank(number, launch_agent.start_rank(self._command, self._folder, environment, inherited,
                                                            self._cores[number], keeper.add, stdout=pipe, stderr=pipe))
                if number > 0:
                    rank.read_pipes(outputs)
                yield rank
        finally:
            os.close(secret)
            listener.close()


def _own_environment():
    """Bazel sets PYTHONPATH for this script: a rank in Python would find our modules before its own."""
    environment = dict(os.environ)
    ours, mark, _ = os.path.abspath(__file__).partition(".runfiles/")
    if mark and "PYTHONPATH" in environment:
        paths = [path for path in environment["PYTHONPATH"].split(":") if not path.startswith(ours + ".runfiles")]
        environment["PYTHONPATH"] = ":".join(paths)
    return environment
