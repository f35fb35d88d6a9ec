"""Servers of ssh that last as long as a test, with keys of their own, and the remote shell that gets there and nowhere else."""

import getpass
import os
import shutil
import subprocess
import time

import launch_hosts

_PATH = os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin"
_DEADLINE = 20  # seconds


def missing():
    """What this machine lacks for it, or "" """
    found = [shutil.which(name, path=_PATH) for name in ("sshd", "ssh", "ssh-keygen")]
    return "" if all(found) else "openssh-server is not installed (ci/apt-packages.txt)"


class SshServers:
    """In a folder of theirs, which has to be there. `cache` is where programs are kept that are copied through them."""

    def __init__(self, folder, cache):
        self._folder = folder
        self.servers = []
        for name in ("host_key", "key"):
            subprocess.run([shutil.which("ssh-keygen", path=_PATH), "-q", "-t", "ed25519", "-N", "", "-f", self._path(name)],
                           check=True)
        shutil.copy(self._path("key.pub"), self._path("authorized"))
        with open(self._path("host_key.pub"), encoding="ascii") as file:
            self._write("known", "* " + file.read())
        # Of another home, whose shells have nothing to read as they begin: what a user's do (pyenv takes a lock) is not to be
        # killed with a test.
        self._write("sshd_config", "HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\n"
                    "PermitRootLogin yes\nSetEnv HOME=%s XDG_CACHE_HOME=%s\n" %
                    (self._path("host_key"), self._path("authorized"), folder, cache))
        self._write("ssh_config", "")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # as its service would; it does not start without
        self.remote_shell = "%s -F %s" % (launch_hosts.REMOTE_SHELL, self._path("ssh_config"))

    def _path(self, name):
        return os.path.join(self._folder, name)

    def _write(self, name, text, mode="w"):
        with open(self._path(name), mode, encoding="ascii") as file:
            file.write(text)

    def lock_out(self):
        """Nobody is let in any more."""
        self._write("authorized", "")

    def start(self, names, address, port, prefix=()):
        """One more server, by a command that may need others before it, for hosts of these names."""
        log = self._path("sshd%d.log" % len(self.servers))
        with open(log, "wb") as file:
            self.servers.append(subprocess.Popen(
                [*prefix, shutil.which("sshd", path=_PATH), "-D", "-e", "-f", self._path("sshd_config"), "-p", str(port),
                 "-o", "ListenAddress=" + address], stdin=subprocess.DEVNULL, stderr=file))
        self._write("ssh_config", "Host %s\n  HostName %s\n  Port %d\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n" % (
            " ".join(names), address, port, getpass.getuser(), self._path("key"), self._path("known")), "a")
        end = time.monotonic() + _DEADLINE
        while True:
            with open(log, encoding="utf-8") as file:
                said = file.read()
            if "Server listening" in said:
                return
            if self.servers[-1].poll() is not None or time.monotonic() > end:
                raise OSError("sshd has not come up: " + said)
            time.sleep(0.01)

    def log(self):
        text = ""
        for number in range(len(self.servers)):
            with open(self._path("sshd%d.log" % number), encoding="utf-8", errors="replace") as file:
                text += file.read()
        return text

    def stop(self):
        for server in self.servers:
            server.kill()
            server.wait()
