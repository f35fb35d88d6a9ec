"""Four hosts of one machine, as far as a network is concerned: a namespace each, joined by a switch in this program.

A host's one interface is a TAP; the switch reads the frames of all and writes each to the host that it is for, later, as a link
with a delay and a bandwidth would, or not at all. It draws what is lost from a seed. Whatever ends the program ends the hosts:
their namespaces have no name. The kernel's own netem would do most of this, where there is one; many kernels have none.
"""
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import time

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_PR_SET_PDEATHSIG = 1
_LONGEST_QUEUE = 0.5  # seconds that a link has still to send; what comes then is lost
_LATE = 0.003  # seconds by which a frame comes behind those after it
_IP, _ARP = b"\x08\x00", b"\x08\x06"
_HEADER = 14  # bytes of an Ethernet frame before its packet
_libc = ctypes.CDLL(None, use_errno=True)


class Link:
    """How what a host sends gets to the switch."""

    def __init__(self, delay=0.0, rate=125e6, loss=0.0, twice=0.0, late=0.0):
        self.delay = delay  # seconds
        self.rate = rate  # bytes a second
        self.loss = loss  # share of the frames
        self.twice = twice  # of those that are not lost: what comes twice
        self.late = late  # and what comes behind later ones

    def words(self):
        return [self.delay, self.rate, self.loss, self.twice, self.late]


def mac(host):
    return bytes((2, 0, 0, 0, 0, host + 1))


def address(host):
    return f"10.77.0.{host + 1}"


class _Switch:
    """The process that has the namespaces."""

    def __init__(self, hosts, control, seed):
        self._control, self._random = control, random.Random(seed)
        self._taps, self._spaces = [], []
        for host in range(hosts):
            if _libc.unshare(_CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "no network namespace")
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH", b"net", _IFF_TAP | _IFF_NO_PI))
            others = [f"neigh add {address(other)} lladdr {mac(other).hex(':')} nud permanent dev net"
                      for other in range(hosts) if other != host]
            subprocess.run(["ip", "-batch", "-"], check=True, text=True, input="\n".join([
                "link set lo up", f"link set net address {mac(host).hex(':')}", "link set net up",
                f"addr add {address(host)}/24 dev net", *others]) + "\n")
            self._taps.append(tap)
            self._spaces.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        self._free = [0.0] * hosts  # when a link has sent what it has
        self._later = []  # (time, number, from, tap, frame)
        self._number = 0
        self._newest = {}  # number of the latest frame that came, by from and tap
        self._counts = {"frames": 0, "lost": 0, "cut": 0, "twice": 0, "overtaken": 0}
        self._set({"links": [Link().words()] * hosts, "cut": [], "largest": {}})

    def _set(self, rules):
        self._links = [Link(*link) for link in rules["links"]]
        self._cut = {tuple(pair) for pair in rules["cut"]}
        self._largest = {int(host): size for host, size in rules["largest"].items()}

    def run(self):
        self._control.sendall(json.dumps(self._spaces).encode() + b"\n")
        poll = select.poll()
        for descriptor in (self._control.fileno(), *self._taps):
            poll.register(descriptor, select.POLLIN)
        hosts = {tap: host for host, tap in enumerate(self._taps)}
        while True:
            wait = None if not self._later else max(0.0, 1000 * (self._later[0][0] - time.monotonic()))
            for descriptor, _ in poll.poll(wait):
                if descriptor in hosts:
                    self._take(hosts[descriptor], descriptor)
                elif not self._listen():
                    return
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                _, number, host, tap, frame = heapq.heappop(self._later)
                self._counts["overtaken"] += number < self._newest.get((host, tap), 0)
                self._newest[host, tap] = max(number, self._newest.get((host, tap), 0))
                try:
                    os.write(tap, frame)
                except OSError:  # as a full queue does
                    self._counts["lost"] += 1

    def _listen(self):
        said = self._control.recv(1 << 16)
        if said:
            self._set(json.loads(said))
            self._control.sendall(json.dumps(self._counts).encode() + b"\n")
        return bool(said)

    def _take(self, host, tap):
        for _ in range(64):  # then it is another host's turn
            try:
                frame = os.read(tap, 1 << 16)
            except BlockingIOError:
                return
            if frame[12:14] not in (_IP, _ARP):
                continue
            broadcast = frame[0] & 1
            for other, to in enumerate(self._taps):
                if other != host and (broadcast or frame[:6] == mac(other)):
                    self._send(host, other, to, frame)

    def _send(self, host, other, to, frame):
        link, now = self._links[host], time.monotonic()
        self._counts["frames"] += 1
        if (host, other) in self._cut or len(frame) - _HEADER > min(self._largest.get(end, 1 << 16) for end in (host, other)):
            self._counts["cut"] += 1
            return
        if self._free[host] - now > _LONGEST_QUEUE or (link.loss and self._random.random() < link.loss):
            self._counts["lost"] += 1
            return
        self._free[host] = max(now, self._free[host]) + len(frame) / link.rate
        late = _LATE if link.late and self._random.random() < link.late else 0.0
        times = 2 if link.twice and self._random.random() < link.twice else 1
        self._counts["twice"] += times - 1
        for _ in range(times):
            self._number += 1
            heapq.heappush(self._later, (self._free[host] + link.delay + late, self._number, host, to, frame))


class Network:
    """The hosts 0, 1, ...; while it is open they are there."""

    def __init__(self, hosts, seed=1):
        self.hosts = hosts
        self._control, theirs = socket.socketpair()
        starter = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._control.close()
                _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() == starter:
                    _Switch(hosts, theirs, seed).run()
            except (OSError, subprocess.SubprocessError) as error:
                os.write(2, f"network: {error}\n".encode())
            finally:
                os._exit(0)
        theirs.close()
        self._answers = self._control.makefile("rb")
        said = self._answers.readline()
        if not said:
            self.close()
            raise OSError("no network of namespaces can be made here")
        self._spaces = json.loads(said)
        self._links = [Link() for _ in range(hosts)]
        self._cut, self._largest = set(), {}

    def space(self, host):
        """The path of its namespace."""
        return f"/proc/{self.pid}/fd/{self._spaces[host]}"

    def command(self, host, command):
        """What runs the command there."""
        return ["nsenter", f"--net={self.space(host)}", *command]

    def _tell(self):
        rules = {"links": [link.words() for link in self._links], "cut": sorted(self._cut),
                 "largest": self._largest}
        self._control.sendall(json.dumps(rules).encode())
        return json.loads(self._answers.readline())

    def counts(self):
        """Frames so far, and of those what was lost, was cut, came twice, or behind later ones of the same two hosts."""
        return self._tell()

    def set_links(self, links):
        self._links = links
        self._tell()

    def cut(self, pairs):
        """No frame gets from the first host of a pair to the second any more."""
        self._cut |= set(pairs)
        self._tell()

    def isolate(self, group):
        """No frame gets from these hosts to the others, nor back."""
        others = set(range(self.hosts)) - set(group)
        self.cut({(a, b) for a in group for b in others} | {(b, a) for a in group for b in others})

    def swallow(self, host, size):
        """Packets of more bytes that come from this host or go to it are lost, and nobody is told: a black hole for MTUs."""
        self._largest[host] = size
        self._tell()

    def heal(self):
        self._cut, self._largest = set(), {}
        self._tell()

    def listeners(self, host):
        """Addresses and ports at which somebody listens there."""
        said = subprocess.run(self.command(host, ["ss", "-Hltn"]), stdout=subprocess.PIPE, check=True, text=True).stdout
        return [line.split()[3] for line in said.splitlines()]

    def reset(self, host, other):
        """Ends a connection between two hosts, as a middlebox that forgets does; how many there were."""
        said = subprocess.run(self.command(host, ["ss", "-HKtn", "state", "established", "dst", address(other)]),
                              stdout=subprocess.PIPE, check=True, text=True).stdout
        return len(said.splitlines())

    def close(self):
        self._answers.close()
        self._control.close()
        os.kill(self.pid, signal.SIGKILL)  # switches that were made later have a copy of our end, so it would wait for them
        os.waitpid(self.pid, 0)
