"""A job of the trainer for chaos.py: started by the launcher, watched from outside, and compared with an undisturbed one."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

STALL_LIMIT = 4  # seconds; of the ranks that stand still in a campaign few get so far
GRACE = 3
RENDEZVOUS_LIMIT = 10
LIMIT = 90  # seconds that one start of the launcher may take, restarts included; more is a hang
RESTARTS = 8
STEPS = 200
_MARK = "SLUICE_CHAOS"
_FINISHED = re.compile(r"step-\d+")


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def _environment_of(pid):
    """Of a process that has begun its program; {} if it has ended or is another user's."""
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in text.split("\0") if "=" in word)


class Process:
    """One that is not reaped by us: by descriptor, so that a number which is used again is never meant."""

    def __init__(self, pid, environment):
        self.pid, self.rank, self.start = pid, int(environment["SLUICE_RANK"]), int(environment["SLUICE_RESTARTS"])
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        self.born = int(stat[19]) / os.sysconf("SC_CLK_TCK")  # seconds since the machine began
        self._descriptor = os.pidfd_open(pid)

    def send(self, number):
        try:
            signal.pidfd_send_signal(self._descriptor, number)
            return True
        except ProcessLookupError:
            return False

    def living(self):
        """Not those that have ended and wait for the launcher to look."""
        try:
            state = pathlib.Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX" and self.send(0)

    def close(self):
        os.close(self._descriptor)


def _sockets_of(pid):
    found = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry.path))
            if match:
                found.add(match[1])
    except OSError:
        pass  # it has ended, or closes descriptors while we look
    return found


def _tcp_table(state):
    """(local port, remote port, inode) of sockets of IPv4 in a state: 0A listens, 01 is connected."""
    for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        if words[3] == state:
            yield int(words[1].split(":")[1], 16), int(words[2].split(":")[1], 16), words[9]


def listening_sockets(pids):
    """Ports by inode, which no other socket will have."""
    own = set().union(*map(_sockets_of, pids))
    return {inode: port for port, _, inode in _tcp_table("0A") if inode in own}


def connections(pids):
    """(local port, remote port) of what connects these processes."""
    own = set().union(*map(_sockets_of, pids))
    return sorted((port, other) for port, other, inode in _tcp_table("01") if inode in own)


def tensors_of(checkpoint):
    """By file and name: type, shape and digest of the bytes; and what the manifest says of them."""
    manifest = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))
    found = {"manifest": {key: manifest[key] for key in ("step", "samples", "seed", "parts", "tensors")}}
    for path in sorted(checkpoint.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, tensor in json.loads(data[8:8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            found[path.name, name] = (tensor["dtype"], tensor["shape"], hashlib.sha256(data[begin:end]).hexdigest())
    return found


def _copy(pipe, path, arrivals):
    """`arrivals`: of each piece when it came, seconds since the machine began, and where it lies."""
    with pipe, open(path, "wb", buffering=0) as file:
        while data := os.read(pipe.fileno(), 1 << 16):
            arrivals.append((time.clock_gettime(time.CLOCK_BOOTTIME), file.tell()))
            file.write(data)


class Layout:
    """What is trained, over which devices and processes."""

    def __init__(self, ranks, mesh, micro_batches, zero=0, steps=STEPS):
        self.ranks, self.mesh, self.micro_batches, self.zero, self.steps = ranks, mesh, micro_batches, zero, steps

    def __str__(self):
        return f"{self.ranks} ranks, {self.mesh}, {self.micro_batches} micro-batches, zero {self.zero}"

    def arguments(self):
        return ["--preset=tiny", f"--layers={3 if 'pipe=3' in self.mesh else 2}", "--hidden=16", "--heads=4",
                "--sequence_length=16", "--batch=12", "--data=text.txt", "--sample_length=0", "--eval_every=0",
                "--keep=3", f"--mesh={self.mesh}", f"--micro_batches={self.micro_batches}", f"--zero={self.zero}",
                f"--stall_limit={STALL_LIMIT}", "--wait_limit=1", f"--rendezvous_limit={RENDEZVOUS_LIMIT}",
                "--secret_file=secret", f"--steps={self.steps}", "--save_every=16"]


class Job:
    """One run in a folder of its own, by one start of the launcher after another."""

    def __init__(self, programs, folder, layout, restarts=RESTARTS, limit=LIMIT):
        self.programs, self.folder, self.layout = programs, pathlib.Path(folder), layout
        self._restarts, self._limit = restarts, limit
        self.run = self.folder / "run"
        self.mark = f"{os.getpid()}.{id(self)}.{time.monotonic_ns()}"
        self.starts = 0
        self.launcher = None
        self._said = []  # threads that copy what it says
        self._arrivals = []  # of what it says on stdout
        self._listened = {}
        self._known = {}  # ranks by pid
        self._end = 0.0

    def start(self):
        """Again where it was stopped: with --resume where there is something to go on with."""
        self.starts += 1
        arguments = self.layout.arguments() + ["--out=run"]
        if self.checkpoints():
            arguments = ["--resume=run"] + [word for word in arguments if not word.startswith("--preset")]
        elif self.run.exists():  # begun, and nothing was saved
            for path in self.run.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        command = [*self.programs["launch"], *self.launcher_arguments(), "--", self.programs["train"], *arguments]
        environment = {**os.environ, _MARK: self.mark, "BUILD_WORKING_DIRECTORY": str(self.folder)}
        environment.pop("BUILD_WORKSPACE_DIRECTORY", None)
        # By pipes: a rank whose files may not grow any more can still say so.
        self.launcher = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self._arrivals = []
        self._said = [threading.Thread(target=_copy, args=(pipe, self.folder / name, arrivals)) for pipe, name, arrivals in (
            (self.launcher.stdout, f"stdout{self.starts}", self._arrivals), (self.launcher.stderr, f"stderr{self.starts}", []))]
        for name in ("stdout", "stderr"):
            (self.folder / f"{name}{self.starts}").touch()
        for thread in self._said:
            thread.start()
        self._end = time.monotonic() + self._limit

    def launcher_arguments(self):
        return ["-n", str(self.layout.ranks), f"--restarts={self._restarts}", f"--grace={GRACE}"]

    def out(self):
        return (self.folder / f"stdout{self.starts}").read_text(errors="replace")

    def out_since(self, moment):
        """What came on stdout since, in seconds since the machine began."""
        begin = min((offset for when, offset in list(self._arrivals) if when > moment), default=None)
        path = self.folder / f"stdout{self.starts}"
        return "" if begin is None else path.read_bytes()[begin:].decode(errors="replace")

    def errors(self):
        return (self.folder / f"stderr{self.starts}").read_text(errors="replace")

    def restarts(self):
        return self.errors().count("; restart ")

    def over(self):
        return self.launcher.poll() is not None

    def check_time(self):
        expect(time.monotonic() < self._end, f"hang: start {self.starts} of the launcher has not ended in "
               f"{self._limit} s; it said {self.errors()[-600:]!r}")

    def ranks(self):
        """The processes of ranks that live, by rank, of the present start."""
        for pid in self._started():
            if pid in self._known:
                continue
            environment = _environment_of(pid)
            if self._owns(environment) and "SLUICE_RANK" in environment:
                try:
                    self._known[pid] = Process(pid, environment)
                except OSError:
                    pass
        return {process.rank: process for process in self._known.values() if process.living()}

    def _started(self):
        """Processes that may be ranks."""
        try:
            launcher = self.launcher.pid
            pids = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="ascii").split()
        except OSError:
            return []
        return list(map(int, pids))

    def _owns(self, environment):
        return environment.get(_MARK) == self.mark

    def note_ports(self):
        self._listened.update(listening_sockets([process.pid for process in self.ranks().values()]))

    def step(self):
        """The last one in the log."""
        try:
            lines = (self.run / "log.jsonl").read_text(errors="replace").splitlines()
        except OSError:
            return 0
        for line in reversed(lines):
            match = re.match(r'\{"step":(\d+),"loss"', line)
            if match:
                return int(match[1])
        return 0

    def checkpoints(self):
        try:
            names = os.listdir(self.run / "checkpoints")
        except OSError:
            return []
        return [self.run / "checkpoints" / name for name in sorted(names) if _FINISHED.fullmatch(name)]

    def saving(self):
        try:
            return any(not _FINISHED.fullmatch(name) for name in os.listdir(self.run / "checkpoints"))
        except OSError:
            return False

    def processes(self):
        """All that were started for this job, the launcher and what it forked too, and live."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and _environment_of(name).get(_MARK) == self.mark:
                found.append(int(name))
        return found

    def _open_ports(self):
        return [port for port, _, inode in _tcp_table("0A") if inode in self._listened]

    def expect_nothing_left(self, seconds=2.0):
        """Once the launcher has ended; what it killed may take a moment to go. How long that took."""
        begin = time.monotonic()
        # One that is killed gives up its memory, by which it is known here, before its ports.
        while (self.processes() or self._open_ports()) and time.monotonic() - begin < seconds:
            time.sleep(0.005)
        left = self.processes()
        for thread in self._said:
            thread.join(0 if left else 5)
        expect(not left, f"processes are left: {left}")
        took = time.monotonic() - begin
        still = self._open_ports()
        expect(not still, f"ports are still open: {still}")
        self._listened = {}
        return took

    def kill_all(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.launcher is not None:
            self.launcher.wait()

    def close(self):
        self.kill_all()
        for process in self._known.values():
            process.close()
        self._known = {}

    def losses(self):
        """The lines of steps by step, without how fast they went. A full disk may have torn one."""
        found = {}
        for line in (self.run / "log.jsonl").read_text(encoding="utf-8").splitlines():
            match = re.match(r'\{"step":(\d+),"loss".*,"tokens_per_second":.*\}', line)
            if match:
                expect(int(match[1]) not in found, f"log.jsonl has step {match[1]} twice")
                found[int(match[1])] = line.partition(',"tokens_per_second"')[0]
        return found

    def last_checkpoint(self):
        last = self.run / "checkpoints" / f"step-{self.layout.steps:06d}"
        expect(last.exists(), f"no checkpoint of step {self.layout.steps}: {[path.name for path in self.checkpoints()]}")
        return last

    def result(self):
        return tensors_of(self.last_checkpoint()), self.losses()


def expect_same(got, expected, lines_may_be_missing):
    tensors, losses = got
    differing = [key for key in set(tensors) | set(expected[0]) if tensors.get(key) != expected[0].get(key)]
    expect(not differing, f"the checkpoint differs from that of the undisturbed run: {differing[:4]}")
    for step, line in expected[1].items():
        if step not in losses and lines_may_be_missing:
            continue
        expect(losses.get(step) == line, f"log.jsonl at step {step}: expected {line}, got {losses.get(step)}")
