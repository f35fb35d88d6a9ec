"""What tests of the launcher share: programs that are its ranks, and a job that is watched from outside."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

DEADLINE = 20  # seconds: of a test that hangs, not of one that passes

# The launcher as its own process, less patient than it is with people's programs.
DRIVER = "import sys; from tools import launch; launch._SECONDS_TO_KILL = 1; sys.exit(launch.main(sys.argv[1:]))"


def alive(pid):
    """Whether it runs; a zombie does not."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def hear_signals():
    """A shell has programs in the background not hear some."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


class LaunchTest(unittest.TestCase):

    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "BUILD_"))}
        self.environment["BUILD_WORKING_DIRECTORY"] = self.folder
        self.environment["PYTHONPATH"] = ":".join(path for path in sys.path if path)

    def program(self, text, python=True):
        path = os.path.join(self.folder, "program%d" % len(os.listdir(self.folder)))
        first = "#!%s\nimport os, signal, socket, subprocess, sys, time\n" % sys.executable if python else "#!/bin/sh\n"
        with open(path, "w", encoding="utf-8") as file:
            file.write(first + "rank = int(os.environ['SLUICE_RANK'])\n" * python + textwrap.dedent(text))
        os.chmod(path, 0o755)
        return path

    def start(self, arguments, prepare=lambda: None, **options):
        def begin():
            hear_signals()
            prepare()
        process = subprocess.Popen([sys.executable, "-c", DRIVER] + arguments, env=self.environment, cwd=self.folder, preexec_fn=begin,
                                   **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
            process.wait()
        for file in (process.stdin, process.stdout, process.stderr):
            if file and not file.closed:
                file.close()

    def launch(self, arguments):
        """Exit code, stdout and stderr of a job that ends by itself."""
        process = self.start(arguments)
        out, error = process.communicate(b"not for ranks", timeout=DEADLINE)
        return process.returncode, out.decode(), error.decode()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def wait_for(self, condition):
        end = time.monotonic() + DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.01)

    def pids(self, count):
        """What the program's processes wrote as files pid.NUMBER, once all are there."""
        self.wait_for(lambda: sum(name.startswith("pid.") for name in os.listdir(self.folder)) == count)
        return [int(name[4:]) for name in os.listdir(self.folder) if name.startswith("pid.")]

    def assert_gone(self, pids):
        self.wait_for(lambda: not any(alive(pid) for pid in pids))
