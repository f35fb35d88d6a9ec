"""Ranks on other hosts: a list of those, and a remote shell by which launch_agent.py gets there and is spoken to."""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import threading

import launch_agent
from launch_ranks import Rank, Refusal

# Never asks anybody, and knows within some seconds that a host has gone.
REMOTE_SHELL = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=2 -o ServerAliveCountMax=3"
_COPY_LIMIT = 300  # seconds
# Given to the remote shell: reads as many bytes of Python as the first number says, and runs them.
_BOOTSTRAP = """python3 -c 'import os; s = b""; exec("while len(s) < %d: s += os.read(0, %d - len(s)) or os._exit(1)"); exec(s)'"""
_FIELD = re.compile(r"(slots|address)=(\S+)")


class Host:
    """A line of the list."""

    def __init__(self, name, slots, address):
        self.name = name  # as the remote shell takes it: "gnode10", "me@10.0.0.2"
        self.slots = slots  # ranks that it gets
        self.address = address  # at which others reach it; "": what its name stands for here
        self.program = ""  # path there, once it was copied


def read_hosts(path):
    """A host a line, `NAME [slots=N] [address=IP]`, N is 1 if not given; # begins a comment."""
    hosts = []
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("--hosts=%s: expected a list of hosts: %s" % (path, error)) from error
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = "--hosts=%s: line %d: " % (path, number)
        fields = {}
        for word in words[1:]:
            field = _FIELD.fullmatch(word)
            if not field or (field[1] == "slots" and not re.fullmatch("[1-9][0-9]{0,3}", field[2])):
                raise Refusal(where + "expected NAME [slots=N] [address=IP], got %r" % word)
            fields[field[1]] = field[2]
        if words[0].startswith("-") or any(host.name == words[0] for host in hosts):
            raise Refusal(where + "expected the name of another host, got %r" % words[0])
        hosts.append(Host(words[0], int(fields.get("slots", 1)), fields.get("address", "")))
    if not hosts:
        raise Refusal("--hosts=%s: expected a host in it, got none" % path)
    return hosts


class _RemoteRank(Rank):
    """The process is the remote shell, in which the agent has the rank."""

    def __init__(self, number, process, host):
        super().__init__(number, process)
        self.name = "rank %d on %s" % (number, host.name)

    def send(self, line):
        try:
            os.write(self.process.stdin.fileno(), line)
        except (BrokenPipeError, BlockingIOError):  # it has ended, which is seen elsewhere; or the network takes nothing
            pass

    def signal(self, number):
        self.send(b"signal %d\n" % number)
        if number == signal.SIGKILL:  # the end of the shell is the end of what it has there, too
            super().signal(number)

    def beat(self):
        self.send(b"\n")

    def reap(self, keeper):
        super().reap(keeper)
        self.process.stdin.close()
        if 128 < self.code <= 128 + 64:
            self.code = 128 - self.code


class HostRanks:
    """Starts the ranks on hosts: as many on each as it has slots, in the order of the list."""

    def __init__(self, hosts, options, command, folder):
        self._shell = shlex.split(options.remote_shell)
        self._ranks, self._cores = options.ranks, options.cores
        self._path, self._arguments, self._folder = command[0], command[1:], options.folder or folder
        with open(launch_agent.__file__, "rb") as file:
            self._agent = file.read()
        self._places = [(host, local) for host in hosts for local in range(host.slots)][:self._ranks]
        self._hosts = [host for host in hosts if any(place[0] is host for place in self._places)]
        self._address = self._hosts[0].address or self._resolve(self._hosts[0].name)

    def _resolve(self, name):
        """The address of the first host, at which all others have to find rank 0."""
        host = name.rpartition("@")[2]
        if os.path.basename(self._shell[0]) == "ssh":  # by its own configuration the name may stand for another
            said = subprocess.run(self._shell + ["-G", name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False).stdout.decode()
            host = dict(line.split(" ", 1) for line in said.splitlines() if " " in line).get("hostname", host)
        try:
            address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
        except OSError as error:
            raise Refusal("%s: no address by which others reach it, %s; say it in the list: %s address=IP"
                          % (name, error, name)) from error
        if len(self._hosts) > 1 and (address.startswith("127.") or address == "::1"):
            raise Refusal("%s: its name stands for %s here, where other hosts do not reach it; say in the list: %s address=IP"
                          % (name, address, name))
        return address

    def _agent_with(self, order, host):
        """The command that has an agent there, and what it is to read first."""
        command = self._shell + [host.name, _BOOTSTRAP % ((len(self._agent),) * 2)]
        return command, self._agent + json.dumps(order).encode() + b"\n"

    def copy_program(self):
        """To each host that does not have it."""
        with open(self._path, "rb") as file:
            program = file.read()
        order = {"digest": hashlib.sha256(program).hexdigest()[:32], "name": os.path.basename(self._path), "size": len(program),
                 "folder": self._folder}
        with concurrent.futures.ThreadPoolExecutor(len(self._hosts)) as pool:
            troubles = list(filter(None, pool.map(lambda host: self._copy_to(host, order, program), self._hosts)))
        if troubles:
            raise Refusal("; ".join(troubles))

    def _copy_to(self, host, order, program):
        """Why it could not, or None."""
        command, first = self._agent_with(order, host)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        timer = threading.Timer(_COPY_LIMIT, process.kill)
        timer.start()
        answer = {}
        try:
            with process.stdin:
                process.stdin.write(first)
                process.stdin.flush()
                answer = _read(process.stdout.readline())
                if "wants" in answer:
                    process.stdin.write(program)
                    process.stdin.flush()
                    answer = _read(process.stdout.readline())
        except OSError:  # what the shell has said says more
            pass
        finally:
            timer.cancel()
        said = process.stderr.read().decode(errors="replace").strip().replace("\n", "; ")
        process.stdout.close()
        process.stderr.close()
        process.wait()
        if "path" not in answer:
            return "%s: %s" % (host.name, answer.get("error") or said or "the remote shell ended with code %d" % process.returncode)
        host.program = answer["path"]
        return None

    def start(self, restarts, outputs, keeper):
        """Yields the ranks. All but the first wait there until it has said where it listens."""
        secret, ranks = os.urandom(32).hex(), []

        def greet(host, line):
            answer = _read(line)
            if "port" in answer:
                for other in ranks[1:]:
                    other.send(b"port %d\n" % answer["port"])
            elif "error" in answer:
                outputs[1].add(("launch: %s: %s\n" % (host.name, answer["error"])).encode())

        for number, (host, local) in enumerate(self._places):
            place = {"rank": number, "ranks": self._ranks, "local_rank": local, "restarts": restarts,
                     "local_ranks": sum(other is host for other, _ in self._places)}
            command, first = self._agent_with({
                "command": [host.program] + self._arguments, "folder": self._folder, "place": place, "secret": secret,
                "address": self._address, "cores": self._cores}, host)
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            rank = _RemoteRank(number, launch_agent.start_rank(command, None, os.environ, {}, None, keeper.add, **pipes), host)
            ranks.append(rank)
            rank.send(first)
            os.set_blocking(rank.process.stdin.fileno(), False)
            rank.read_pipes(outputs, lambda line, host=host: greet(host, line))
            yield rank


def _read(line):
    """What an agent says first; or an error, if something else does, as a shell that greets people."""
    try:
        answer = json.loads(line or "{}")
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    return {"error": "expected the launcher's agent to answer, got %r; does the shell there print something as it starts?" %
            line.decode(errors="replace").strip()}
