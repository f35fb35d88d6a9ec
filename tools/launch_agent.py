"""How a rank is started on the machine that it runs on: by //tools:launch itself, or, with --hosts, by this file as a program.

The launcher then sends it this file's text and an order over the stdin of a remote shell; nothing but Python 3.8 has to be there.
Lines that come afterwards are `port N`, where rank 0 listens, `signal N`, for the rank, and empty ones, each second: the launcher
lives. If they stop, the rank is killed. What the agent has to say goes to stdout as JSON, a line each, before anything of the rank.
"""

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

BAD_USE = 2  # exit code of bad flags, ours and the ranks': the same flags would fail again
BEAT = 1.0  # seconds between two words of the launcher
_SILENCE_LIMIT = 10.0  # seconds until a launcher that says nothing is taken for gone
_KEPT_SECONDS = 7 * 86400  # a program that nobody has started for so long is removed
_PR_SET_PDEATHSIG = 1
_VARIABLES = ("SLUICE_RANK", "SLUICE_RANKS", "SLUICE_LOCAL_RANK", "SLUICE_LOCAL_RANKS", "SLUICE_RENDEZVOUS",
              "SLUICE_LISTENER_FD", "SLUICE_SECRET_FD", "SLUICE_RESTARTS")
_PLACE = ("rank", "ranks", "local_rank", "local_ranks", "rendezvous", "restarts")
_libc = ctypes.CDLL(None, use_errno=True)


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


def make_secret(secret):
    """A descriptor with bytes that nobody can change: in memory, with no name on any disk."""
    descriptor = os.memfd_create("sluice-secret", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, secret)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return descriptor


def listen(address, ranks):
    """Port 0: the kernel chooses, and nobody can take the port between its choice and rank 0."""
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(max(128, ranks))
    return listener


def rank_environment(base, place, inherited):
    """What a rank is told, beside what `base` says; nothing of a launcher around us."""
    environment = {name: value for name, value in base.items() if name not in _VARIABLES}
    environment.update({"SLUICE_" + name.upper(): str(place[name]) for name in _PLACE})
    environment.update({name: str(descriptor) for name, descriptor in inherited.items()})
    return environment


def start_rank(command, folder, environment, inherited, cores, keep=lambda group: None, **pipes):
    """Starts it as the leader of a process group of its own, which ends with us. `keep` is called in the new process."""
    starter = os.getpid()

    def prepare():
        os.setpgid(0, 0)  # what a terminal sends comes from us alone, once
        keep(os.getpid())  # before it can start anything
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it may print although another group has the terminal
        if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != starter:
            os._exit(1)
        if cores:
            os.sched_setaffinity(0, cores)

    return subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=prepare, pass_fds=tuple(inherited.values()),
                            **{"stdin": subprocess.DEVNULL, **pipes})


def has_ended(pid):
    """Asks without reaping: until then no other process can get its number, which is also its group's."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def signal_group(group, number):
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # it has ended, or is about to become another user's program
        pass


# ---- the agent on another host ----

class _Launcher:
    """What comes from it, over stdin."""

    def __init__(self):
        self._rest = b""
        self.gone = False

    def read(self):
        """Waits until something comes, or nothing will."""
        data = os.read(0, 1 << 16)
        self._rest += data
        self.gone = not data

    def words(self):
        """Of the lines that have come whole, each once; of one that says no more than that the launcher lives, none."""
        while b"\n" in self._rest:
            line, _, self._rest = self._rest.partition(b"\n")
            if line:
                yield line.decode().split(" ", 1)

    def first_line(self):
        while b"\n" not in self._rest and not self.gone:
            self.read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def copy(self, size, file):
        while size > 0 and not self.gone:
            if not self._rest:
                self.read()
            file.write(self._rest[:size])
            size, self._rest = size - len(self._rest[:size]), self._rest[size:]
        return size == 0


def _say(what):
    os.write(1, json.dumps(what).encode() + b"\n")


def _take_program(order, launcher):
    """Answers with the program's path among this user's cached files; its bytes are asked for unless they are there already."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    programs = os.path.join(cache, "sluice", "programs")
    path = os.path.join(programs, order["digest"], order["name"])
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if not os.path.isdir(order["folder"]):
        raise OSError("there is no folder %s (--folder names another)" % order["folder"])
    copied = not os.path.exists(path)
    if copied:
        _say({"wants": True})
        part = "%s.%s.%d" % (path, socket.gethostname(), os.getpid())
        with open(part, "wb") as file:
            whole = launcher.copy(order["size"], file)
        if not whole:
            os.unlink(part)
            raise OSError("the program did not come whole")
        os.chmod(part, 0o700)
        os.replace(part, path)
    os.utime(os.path.dirname(path))
    _forget_old(programs)
    libraries = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
    missing = [line.split()[0] for line in libraries.splitlines() if line.endswith("=> not found")]
    if missing:
        raise OSError("it lacks %s of the program; tools/apt-packages.txt names the packages" % ", ".join(missing))
    _say({"path": path, "copied": copied})


def _forget_old(programs):
    for name in os.listdir(programs):
        path = os.path.join(programs, name)
        try:
            old = time.time() - os.stat(path).st_mtime > _KEPT_SECONDS
        except FileNotFoundError:  # another agent was faster
            continue
        if old:
            shutil.rmtree(path, ignore_errors=True)


def _wait_for_port(launcher):
    """Where rank 0 listens; a rank that is told to end before ends."""
    while not launcher.gone:
        for word, number in launcher.words():
            if word == "port":
                return int(number)
            sys.exit(128 + int(number))
        launcher.read()
    sys.exit(1)


def _start(order, launcher):
    place, address = order["place"], order["address"]
    secret = make_secret(bytes.fromhex(order["secret"]))
    inherited, listener = {"SLUICE_SECRET_FD": secret}, None
    if place["rank"] == 0:
        listener = listen(address, place["ranks"])
        inherited["SLUICE_LISTENER_FD"] = listener.fileno()
        port = listener.getsockname()[1]
        _say({"port": port})
    else:
        _say({})
        port = _wait_for_port(launcher)
    place["rendezvous"] = ("[%s]:%d" if ":" in address else "%s:%d") % (address, port)
    cores = split_cores(place["local_ranks"])[place["local_rank"]] if order["cores"] == "split" else None
    process = start_rank(order["command"], order["folder"], rank_environment(os.environ, place, inherited), inherited, cores)
    os.close(secret)
    if listener:
        listener.close()
    return process


class _Watch:
    """A rank that runs, and the launcher's words for it."""

    def __init__(self, process, launcher, wakeup):
        self._process, self._launcher, self._wakeup = process, launcher, wakeup
        self._heard = time.monotonic()
        self._stopped = False  # a launcher that stands still on Ctrl-Z says nothing, and is not gone

    def run(self):
        """The rank's exit code, 128 and the signal if it was killed."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(0, select.POLLIN)
        while not has_ended(self._process.pid):
            ready = [descriptor for descriptor, _ in poll.poll(1000 * BEAT)]
            if self._wakeup in ready:
                os.read(self._wakeup, 4096)
            if 0 in ready:
                self._launcher.read()
                self._heard = time.monotonic()
                for _, number in self._launcher.words():
                    self._signal(int(number))
            if self._launcher.gone or (not self._stopped and time.monotonic() - self._heard > _SILENCE_LIMIT):
                break
        signal_group(self._process.pid, signal.SIGKILL)  # it, or what it has left behind
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def _signal(self, number):
        self._stopped = number == signal.SIGSTOP
        signal_group(self._process.pid, number)


def agent():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGCHLD, signal.SIGHUP):  # a remote shell that is lost is seen by the end of stdin
        signal.signal(number, lambda *_: None)
    launcher = _Launcher()
    order = json.loads(launcher.first_line() or "null")
    if order is None:
        return 1
    try:
        if "digest" in order:
            _take_program(order, launcher)
            return 0
        process = _start(order, launcher)
    except OSError as error:
        _say({"error": str(error)})
        return BAD_USE
    return _Watch(process, launcher, reading).run()


if __name__ == "__main__":
    sys.exit(agent())
