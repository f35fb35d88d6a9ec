"""Real launchers start a small program whose ranks say their places and meet: //tools:launch, mpirun, torchrun, and srun of a
Slurm of one node that lives in a folder of its own, with this user's daemons, for as long as the test.

Where a launcher is missing, the test prints a line that begins with SKIPPED, which .ci/run shows.
"""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

_PROGRAM = os.path.abspath("framework/cluster/launch_place_main")
_LAUNCH = os.path.abspath("tools/launch.py")
_DEADLINE = 30  # seconds
_skipped = set()  # reasons that were printed
# Debian's place of daemons is not on every user's path.
_PATH = os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin"


def _needed(*names):
    """The paths of programs, or a skipped test."""
    found = [shutil.which(name, path=_PATH) for name in names]
    for name, path in zip(names, found):
        if path is None:
            _skip("%s is not installed (ci/apt-packages.txt)" % name)
    return found


def _skip(reason):
    if reason not in _skipped:
        print("\nSKIPPED: //framework/cluster:launchers_test: " + reason, file=sys.stderr)
    _skipped.add(reason)
    raise unittest.SkipTest(reason)


def _environment(**more):
    """Ours without what a launcher around this test has set."""
    launchers = ("SLUICE_", "SLURM", "OMPI_", "PMI", "PET_", "TORCHELASTIC_", "MASTER_", "BUILD_")
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(launchers) and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    return {**kept, "PATH": _PATH, **more}


def _die_with_the_test():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


class LauncherTest(unittest.TestCase):

    def launched(self, command, code=0, **environment):
        """What it prints, lines in order, and its stderr."""
        done = subprocess.run(command, env=_environment(**environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=_DEADLINE, check=False, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return sorted(done.stdout.splitlines()), done.stderr

    def assert_met(self, lines, launcher, address, local=None, prefix=""):
        """Three ranks were told their places, and all have met at the address, a regular expression."""
        self.assertEqual(len(lines), 3, lines)
        for rank in range(3):
            met = "1 2" if rank == 0 else "rank 0"
            place = r"%s: rank %d of 3, local %d of %d, rendezvous at %s; met %s" % (
                re.escape(launcher), rank, *(local or [(0, 3), (1, 3), (2, 3)])[rank], address, met)
            begin = re.escape(prefix % rank) if prefix and rank > 0 else ""
            self.assertEqual(sum(re.fullmatch(begin + place, line) is not None for line in lines), 1, (place, lines))


class OurLauncherTest(LauncherTest):

    def test_ranks_meet(self):
        lines, error = self.launched([sys.executable, _LAUNCH, "-n", "3", "--", _PROGRAM])
        self.assertEqual(error, "")
        self.assert_met(lines, "//tools:launch", r"127\.0\.0\.1:\d+", prefix="[rank %d] ")


class MpirunTest(LauncherTest):

    def setUp(self):
        mpirun, = _needed("mpirun")
        # A session folder of its own, with a name that is short enough for sockets.
        self.folder = tempfile.mkdtemp(dir="/tmp", prefix="mpi.")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.mpirun = [mpirun, "--oversubscribe"]
        self.environment = {"TMPDIR": self.folder, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def test_ranks_of_one_host_meet(self):
        lines, _ = self.launched(self.mpirun + ["-n", "3", _PROGRAM], **self.environment)
        self.assert_met(lines, "mpirun", r"127\.0\.0\.1:2\d{4}")

    def hosts(self, *more):
        """Two hosts, which are this one; mpirun believes that they are others, as it goes there by a command of ours."""
        remote = os.path.join(self.folder, "remote")
        with open(remote, "w", encoding="ascii") as file:
            # Daemons of one host would make the same folders at the same time.
            file.write("#!/bin/sh\nexport TMPDIR=%s/$1\nmkdir $TMPDIR\nshift\nexec sh -c \"$*\"\n" % self.folder)
        os.chmod(remote, 0o755)
        return self.mpirun + ["--mca", "plm_rsh_agent", remote, "--host", "nodea:2,nodeb:1", "-n", "3", *more, _PROGRAM]

    def test_hosts_need_an_address(self):
        _, error = self.launched(self.hosts(), code=1, **self.environment)
        self.assertIn("--rendezvous: expected host:port of rank 0, as mpirun does not say its host", error)

    def test_hosts_meet_where_they_are_told(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        lines, _ = self.launched(self.hosts("-x", "MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=%d" % port), **self.environment)
        self.assert_met(lines, "mpirun", r"127\.0\.0\.1:%d" % port, local=[(0, 2), (1, 2), (0, 1)])


class TorchrunTest(LauncherTest):

    def setUp(self):
        self.torchrun = os.environ.get("SLUICE_TORCHRUN") or shutil.which("torchrun", path=_PATH)
        if not self.torchrun:
            _skip("torchrun is not on the path (--test_env=SLUICE_TORCHRUN=PATH names it)")

    def test_ranks_meet_beside_torchruns_own_store(self):
        lines, _ = self.launched([self.torchrun, "--no-python", "--nproc_per_node=3", _PROGRAM])
        self.assert_met(lines, "torchrun", r"127\.0\.0\.1:2\d{4}")

    def test_ranks_meet_where_torchrun_has_no_store(self):
        lines, _ = self.launched([self.torchrun, "--no-python", "--standalone", "--nproc_per_node=3", _PROGRAM],
                                 TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
        self.assert_met(lines, "torchrun", r"127\.0\.0\.1:\d+")


_SLURM = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=p Nodes={host} Default=YES State=UP
"""


class SlurmTest(LauncherTest):

    @classmethod
    def setUpClass(cls):
        munged, controller, node, sinfo, *_ = _needed("munged", "slurmctld", "slurmd", "sinfo", "srun", "salloc", "sbatch")
        cls.daemons = []
        # Sockets need short names, and munge a path that all may walk.
        cls.folder = tempfile.mkdtemp(dir="/tmp", prefix="slurm.")
        cls.addClassCleanup(cls.stop)
        os.chmod(cls.folder, 0o755)
        for name, mode in (("munge", 0o711), ("state", 0o700), ("spool", 0o755)):
            os.mkdir(os.path.join(cls.folder, name))
            os.chmod(os.path.join(cls.folder, name), mode)
        cls.write("munge/key", os.urandom(128))
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", 0))
            cls.write("slurm.conf", _SLURM.format(
                folder=cls.folder, host=socket.gethostname().split(".")[0], controller=first.getsockname()[1],
                node=second.getsockname()[1], user=subprocess.check_output(["id", "-un"], text=True).strip()).encode())
        cls.configuration = {"SLURM_CONF": os.path.join(cls.folder, "slurm.conf")}
        munge = os.path.join(cls.folder, "munge")
        cls.daemon([munged, "--foreground", "--num-threads=1"] + ["--%s-file=%s/%s" % (name, munge, name)
                                                                  for name in ("key", "pid", "log", "seed")]
                   + ["--socket=%s/socket" % munge])
        cls.wait_for("munged", lambda: os.path.exists(munge + "/socket"))
        cls.daemon([controller, "-D", "-c"])
        cls.daemon([node, "-D"])
        cls.wait_for("an idle node", lambda: cls.say([sinfo, "--noheader", "--format=%t"]) == "idle\n")

    @classmethod
    def write(cls, name, content):
        path = os.path.join(cls.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, 0o600)

    @classmethod
    def daemon(cls, command):
        with open(os.path.join(cls.folder, os.path.basename(command[0]) + ".out"), "wb") as out:
            cls.daemons.append(subprocess.Popen(command, env=_environment(**cls.configuration), cwd=cls.folder,
                                                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                                preexec_fn=_die_with_the_test))

    @classmethod
    def say(cls, command):
        return subprocess.run(command, env=_environment(**cls.configuration), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False, text=True).stdout

    @classmethod
    def wait_for(cls, what, condition):
        end = time.monotonic() + _DEADLINE
        while not condition():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in cls.daemons):
                for name in sorted(os.listdir(cls.folder)):
                    if name.endswith((".out", ".log")):
                        with open(os.path.join(cls.folder, name), encoding="utf-8", errors="replace") as file:
                            print("== %s\n%s" % (name, file.read()[-3000:]), file=sys.stderr)
                raise AssertionError("Slurm has not come up: expected " + what)
            time.sleep(0.05)

    @classmethod
    def stop(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(daemon.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            daemon.wait()
        shutil.rmtree(cls.folder, True)

    def test_a_step_is_a_launch(self):
        lines, _ = self.launched(["srun", "-n", "3", _PROGRAM], **self.configuration)
        self.assert_met(lines, "srun", r"127\.0\.0\.1:2\d{4}")

    def test_a_step_with_pmi_is_the_same(self):
        lines, _ = self.launched(["srun", "--mpi=pmi2", "-n", "3", _PROGRAM], **self.configuration)
        self.assert_met(lines, "srun", r"127\.0\.0\.1:2\d{4}")

    def test_an_allocation_is_none(self):
        shell = "%s; srun %s" % (_PROGRAM, _PROGRAM)
        lines, _ = self.launched(["salloc", "-n", "3", "sh", "-c", shell], **self.configuration)
        alone = [line for line in lines if line.startswith("one process")]
        self.assertEqual(alone, ["one process, started by no launcher; SLURM_NTASKS=3 is of the allocation, "
                                 "and srun would start as many"])
        self.assert_met([line for line in lines if line not in alone], "srun", r"127\.0\.0\.1:2\d{4}")

    def test_the_body_of_a_batch_script_is_none(self):
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n%s\nsrun %s\necho end\n" % (_PROGRAM, _PROGRAM))
        out = os.path.join(self.folder, "batch")
        self.launched(["sbatch", "-n", "3", "-o", out, script], **self.configuration)

        def lines():
            if not os.path.exists(out):
                return []
            with open(out, encoding="utf-8") as file:
                return file.read().splitlines()
        self.wait_for("the end of a batch script", lambda: lines()[-1:] == ["end"])
        self.assertTrue(lines()[0].startswith("one process, started by no launcher; SLURM_NTASKS=3"), lines())
        self.assert_met(lines()[1:-1], "srun", r"127\.0\.0\.1:2\d{4}")


if __name__ == "__main__":
    unittest.main()
