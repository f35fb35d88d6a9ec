"""The faults of chaos.py: each waits for its moment, does what it does to a job, and says what that was and how it was met."""
import hmac
import os
import pathlib
import re
import resource
import secrets
import signal
import socket
import struct
import subprocess
import time

import core_time
from chaos_job import GRACE, RENDEZVOUS_LIMIT, STALL_LIMIT, STEPS, Failure, connections, expect, listening_sockets

FAULTS = {}
# Seconds, besides what the ranks wait for a core that others have. Who has met the others knows at once that one is lost; whom
# it misses before, rank 0 says at the end of the time to come, if the launcher does not end it before. The table says how long
# it took.
_LOST = 1
_BEAT = 1  # a rank that says nothing is looked at each second
_MET = min(RENDEZVOUS_LIMIT, GRACE + 5) + _LOST
_SILENT = STALL_LIMIT + _BEAT + _LOST
_STOPPED = 30  # to save and end, when it is told to
_ON_FULL_DISK = 6
_POLL = 0.002


def fault(function):
    FAULTS[function.__name__] = function
    return function


class Moment:
    """When a fault comes: so long after the ranks are there, at a share of the steps that are left, or in the next save."""

    def __init__(self, random):
        self.kind = random.choices(("start", "step", "save"), (25, 45, 30))[0]
        self.value = random.uniform(0, 0.8) if self.kind == "start" else random.uniform(0, 0.7)
        self.later = random.uniform(0, 0.01)  # so that it is not always the first thing in a step or a save

    def __str__(self):
        return f"{self.kind} {self.value:.3f}+{self.later:.3f}"

    def wait(self, job):
        """False if the job ended before."""
        first = job.step()
        at = first + self.value * (STEPS - first)
        if self.kind == "start" and not self._wait(job, lambda: len(job.ranks()) == job.layout.ranks):
            return False
        begin = time.monotonic()
        reached = {"start": lambda: time.monotonic() - begin >= self.value,
                   "step": lambda: job.step() > at,
                   "save": lambda: job.step() >= at and job.saving()}[self.kind]
        if not self._wait(job, reached):
            return False
        time.sleep(self.later)
        return bool(job.ranks())

    @staticmethod
    def _wait(job, there):
        while not there():
            if job.over():
                return False
            job.check_time()
            time.sleep(_POLL)
        return True


def phase(job):
    """Where a job stands, for the table: ranks that have not met cannot know that one of them is gone."""
    # Each start prints its model, then steps; the last lines of the one before may come when its ranks are gone.
    born = max([process.born for process in job.ranks().values()], default=0)
    if not re.search(r"^model .*^step +\d+/", job.out_since(born), re.MULTILINE | re.DOTALL):
        return "starting"  # though a checkpoint may lie there that was being saved when the last start ended
    return "saving" if job.saving() else "training"


def _victim(job, random):
    living = job.ranks()
    return living[random.choice(sorted(living))] if living else None


def _until_gone(job, others, limit):
    """How long the others need to end, from now on."""
    others = list(others)
    watch = core_time.Watch([process.pid for process in others])
    while living := [process.rank for process in others if process.living()]:
        took = watch.look()
        expect(took - watch.waited() < limit, f"after {took:.1f} s, of which they waited {watch.waited():.1f} s for a core, ranks "
               f"{living} had not ended; expected {limit} s")
        time.sleep(_POLL)
    return watch.look()


class Met:
    """How a fault was met."""

    def __init__(self, name, seconds=None, breaks=0, stops=False):
        self.name, self.seconds = name, seconds
        self.breaks = breaks  # how often the job may have to be begun again
        self.stops = stops  # the launcher ends, and is started again to go on


@fault
def kill(job, random):
    """F1, F2, F3: kill -9 of a rank."""
    victim, where = _victim(job, random), phase(job)
    others = [process for process in job.ranks().values() if process is not victim]
    if victim is None or not victim.send(signal.SIGKILL):
        return None
    seconds = _until_gone(job, others, _MET if where == "starting" else _LOST)
    return Met(f"kill -9, {where}", seconds, breaks=1)


@fault
def pause(job, random):
    """F4: stopped for a moment. Nothing breaks."""
    victim, seconds = _victim(job, random), random.uniform(0.1, 1.2)
    if victim is None or not victim.send(signal.SIGSTOP):
        return None
    time.sleep(seconds)
    victim.send(signal.SIGCONT)
    return Met("stopped for a moment")


def _expect_named(job, victim):
    """Before the others gave it up, one of them said that all wait for it. What they say comes through the launcher."""
    name = re.compile(rf"all wait for rank {victim.rank} at \S+, process {victim.pid}, which gives no answer")
    begin = time.monotonic()
    while not name.search(job.errors()):
        expect(time.monotonic() - begin < 5, f"nobody said that all wait for rank {victim.rank}: {job.errors()[-600:]}")
        time.sleep(_POLL)


@fault
def stall(job, random):
    """F4: stopped for longer than --stall_limit. The others name it and end; the launcher kills it, if it does not go on and end."""
    goes_on = random.random() < 0.7
    where = "starting" if phase(job) == "starting" else "training"
    victim = _victim(job, random)
    others = [process for process in job.ranks().values() if process is not victim]
    if victim is None or not victim.send(signal.SIGSTOP):
        return None
    try:
        seconds = _until_gone(job, others, _SILENT + (_MET if where == "starting" else 0))
        if where == "training" and "it said nothing for" in job.errors():
            _expect_named(job, victim)
    finally:
        if goes_on:
            victim.send(signal.SIGCONT)
    return Met(f"stopped for good, {where}", seconds, breaks=1)


@fault
def terminate(job, random):
    """F21: SIGTERM to one rank. All save and exit 0."""
    where = phase(job)
    victim = _victim(job, random)
    if victim is None or not victim.send(signal.SIGTERM):
        return None
    return _ended_on_term(job, "one rank", where)


@fault
def terminate_all(job, random):
    """F21: SIGTERM to the launcher. All save and exit 0."""
    del random
    where = phase(job)
    if job.over():
        return None
    job.launcher.send_signal(signal.SIGTERM)
    return _ended_on_term(job, "the launcher", where)


def _ended_on_term(job, to, where):
    """Before the ranks have a plan one that is told to stop just ends, and the others miss it: then the job begins again."""
    begin, restarts = time.monotonic(), job.restarts()
    while not job.over() and job.restarts() == restarts:
        expect(time.monotonic() - begin < _STOPPED, f"SIGTERM to {to}, {where}: the job went on")
        time.sleep(_POLL)
    seconds = time.monotonic() - begin
    if job.restarts() > restarts:
        expect(where == "starting" and to == "one rank", f"SIGTERM to {to}, {where}: the job began again: {job.errors()[-500:]}")
        return Met("SIGTERM to one rank, starting", seconds, breaks=1)
    early = where == "starting" and job.launcher.returncode == 128 + signal.SIGTERM  # a rank had not begun to listen to it
    expect(job.launcher.returncode == 0 or early, f"SIGTERM to {to}, {where}: exit {job.launcher.returncode}: {job.errors()[-500:]}")
    return Met(f"SIGTERM to {to}", seconds, stops=True)


@fault
def kill_launcher(job, random):
    """The launcher is killed: no process is left."""
    del random
    if job.over():
        return None
    job.launcher.kill()
    job.launcher.wait()
    return Met("kill -9 of the launcher", job.expect_nothing_left(), stops=True)


@fault
def reset(job, random):
    """F5: a connection between two ranks is reset."""
    ranks = job.ranks()
    found = [pair for pair in connections([process.pid for process in ranks.values()])]
    own = {pair for pair in found if (pair[1], pair[0]) in found}
    if not own or phase(job) == "starting":
        return None
    port, other = random.choice(sorted(own))
    ended = subprocess.run(["ss", "-K", "src", "127.0.0.1", "sport", "=", str(port), "dst", "127.0.0.1", "dport", "=", str(other)],
                           capture_output=True, text=True, check=False)
    if str(port) not in ended.stdout:
        return None
    return Met("connection reset", _until_gone(job, ranks.values(), _LOST), breaks=1)


def _trains(job):
    """Waits for a step: before the first one a disk that takes nothing is an error. False at the end."""
    before = job.step()
    while not job.over() and job.step() <= before:
        job.check_time()
        time.sleep(_POLL)
    return not job.over() and job.step() < STEPS - 20


@fault
def full_disk(job, random):
    """F10: the run's disk, a small one, is full for a while. A checkpoint may be missing, training goes on.

    Only if the last one is missing the job has failed; then it begins again, which needs room, too.
    """
    if not os.path.ismount(job.run) or not _trains(job):
        return None
    ballast = job.run / "ballast"
    try:
        with open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
    except OSError:
        pass
    end = time.monotonic() + random.uniform(0.1, 1)
    while time.monotonic() < end and not job.over():
        time.sleep(_POLL)
    ballast.unlink()
    return Met("disk full", breaks=_ON_FULL_DISK)


@fault
def file_limit(job, random):
    """F10: no rank can write more than a little to a file for a while, as under a quota."""
    if not _trains(job):
        return None
    ranks = list(job.ranks().values())
    for process in ranks:
        _limit_files(process, random.choice((0, 1 << 10, 1 << 13)))
    end = time.monotonic() + random.uniform(0.1, 1)
    while time.monotonic() < end and not job.over():
        time.sleep(_POLL)
    for process in ranks:
        _limit_files(process, resource.RLIM_INFINITY)
    return Met("file size limit", breaks=1)


def _limit_files(process, size):
    if process.living():
        try:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        except ProcessLookupError:
            pass


# ---- who is not wanted: F14, F15, F16 ----

def _hello(rank, ranks, channel, restarts):
    text = b"SLUICE" + struct.pack("<Hiiii", 2, rank, ranks, channel, restarts)
    return text + bytes(32 - len(text)) + secrets.token_bytes(32)


def _enter(port, secret, caller):
    """What who knows the secret is told: (code, text); None where the connection ends without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        hello = _hello(*caller)
        connection.sendall(hello)
        challenge = connection.recv(64, socket.MSG_WAITALL)
        added = b"127.0.0.1:9 0123456789abcdef".ljust(64, b"\0")
        proof = hmac.digest(secret, b"sluice client" + hello + challenge + added, "sha256")
        connection.sendall(proof + added)
        head = connection.recv(8, socket.MSG_WAITALL)
        if len(head) < 8:
            return None
        code, size = struct.unpack("<iI", head)
        return code, connection.recv(size, socket.MSG_WAITALL).decode(errors="replace")


def _garbage(random):
    return random.choice((
        random.randbytes(random.choice((1, 63, 64, 65, 4096))),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        _hello(1, 4, 0, 0) + b"\xff" * 4096,
        b"SLUICE" + b"\xff" * 58 + struct.pack("<I", 0xffffffff) * 64,
        b""))


@fault
def strangers(job, random):
    """Port scans, garbage, another job's rank, a wrong secret, at all ports of the job. It does not notice."""
    ranks = job.ranks()
    ports = sorted(listening_sockets([process.pid for process in ranks.values()]).values())
    if not ports or phase(job) == "starting":
        return None
    secret = (job.folder / "secret").read_bytes()
    start, held = max(process.start for process in ranks.values()), []
    many = job.layout.ranks
    callers = ((1, many, 0, start), (many, many, 0, start), (-1, many, 0, start), (1, many + 1, 0, start),
               (1, many, 7, start), (1, many, 0, start + 1), (1 << 30, many, 1 << 30, start))
    try:
        for _ in range(random.randint(10, 60)):
            port = random.choice(ports)
            what = random.choice(("scan", "garbage", "hold", "secret", "rank"))
            if what == "rank":
                _expect_refused(_enter(port, secret, random.choice(callers)))
            elif what == "secret":
                _expect_refused(_enter(port, b"another secret, as long..", random.choice(callers)))
            else:
                connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                if what == "garbage":
                    connection.sendall(_garbage(random))
                if what == "hold":
                    held.append(connection)
                else:
                    connection.close()
    except OSError:  # the job may be over, which is seen elsewhere; or it has ended a connection while we spoke
        pass
    finally:
        for connection in held:
            connection.close()
    return Met("strangers at the ports")


def _expect_refused(verdict):
    if verdict is not None and verdict[0] == 0:
        raise Failure("a stranger was let in")


def mount_small_disk(path, size):
    """A disk of its own for the run, where this user may make one."""
    pathlib.Path(path).mkdir()
    ended = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True, check=False)
    return ended.returncode == 0


def unmount(path):
    subprocess.run(["umount", "-l", path], capture_output=True, check=False)
