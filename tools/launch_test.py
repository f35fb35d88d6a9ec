import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
import unittest
from unittest import mock

from tools import launch

_DEADLINE = 20  # seconds: of a test that hangs, not of one that passes

# The launcher as its own process, less patient than it is with people's programs.
_DRIVER = "import sys; from tools import launch; launch._SECONDS_TO_KILL = 1; sys.exit(launch.main(sys.argv[1:]))"


def _alive(pid):
    """Whether it runs; a zombie does not."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _hear_signals():
    """A shell has programs in the background not hear some."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


class LaunchTest(unittest.TestCase):

    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
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
            _hear_signals()
            prepare()
        process = subprocess.Popen([sys.executable, "-c", _DRIVER] + arguments, env=self.environment, preexec_fn=begin,
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
        out, error = process.communicate(b"not for ranks", timeout=_DEADLINE)
        return process.returncode, out.decode(), error.decode()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def wait_for(self, condition):
        end = time.monotonic() + _DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.01)

    def pids(self, count):
        """What the program's processes wrote as files pid.NUMBER, once all are there."""
        self.wait_for(lambda: sum(name.startswith("pid.") for name in os.listdir(self.folder)) == count)
        return [int(name[4:]) for name in os.listdir(self.folder) if name.startswith("pid.")]

    def assert_gone(self, pids):
        self.wait_for(lambda: not any(_alive(pid) for pid in pids))


class RanksTest(LaunchTest):

    def test_what_a_rank_is_told(self):
        self.environment.update({"SLUICE_LISTENER_FD": "77", "SLUICE_RANKS": "9", "SLUICE_DATASETS": "/data", "OTHER": "kept"})
        program = self.program("""
            import json
            told = {name: value for name, value in os.environ.items() if name.startswith(("SLUICE_", "OTHER"))}
            told["arguments"] = sys.argv[1:]
            told["folder"] = os.getcwd()
            told["input"] = sys.stdin.read()
            told["descriptors"] = [int(name) for name in os.listdir("/proc/self/fd")]
            told["group"] = os.getpgid(0) == os.getpid()
            open("told.%d" % rank, "w").write(json.dumps(told))
        """)
        self.assertEqual(self.launch(["-n", "3", "--", program, "--mesh=data=3", "-n", "--"]), (0, "", ""))
        told = [json.loads(self.read("told.%d" % rank)) for rank in range(3)]
        secret = told[0].pop("SLUICE_SECRET_FD")
        listener = told[0].pop("SLUICE_LISTENER_FD")
        for rank, one in enumerate(told):
            self.assertEqual(one.pop("SLUICE_SECRET_FD", secret), secret)
            self.assertRegex(one.pop("SLUICE_RENDEZVOUS"), r"^127\.0\.0\.1:\d+$")
            inherited = {0, 1, 2, int(secret)} | ({int(listener)} if rank == 0 else set())
            # And the one that reads the list.
            self.assertEqual(len(set(one.pop("descriptors")) - inherited), 1)
            self.assertEqual(one, {
                "SLUICE_RANK": str(rank), "SLUICE_RANKS": "3", "SLUICE_LOCAL_RANK": str(rank), "SLUICE_LOCAL_RANKS": "3",
                "SLUICE_RESTARTS": "0", "SLUICE_DATASETS": "/data", "OTHER": "kept", "arguments": ["--mesh=data=3", "-n", "--"],
                "folder": self.folder, "input": "", "group": True})

    def test_the_descriptors_are_a_socket_that_listens_and_a_secret_of_all(self):
        program = self.program("""
            secret = os.pread(int(os.environ["SLUICE_SECRET_FD"]), 100, 0)
            host, port = os.environ["SLUICE_RENDEZVOUS"].split(":")
            if rank > 0:
                with socket.create_connection((host, int(port))) as connection:
                    connection.sendall(secret)
                sys.exit()
            listener = socket.socket(fileno=int(os.environ["SLUICE_LISTENER_FD"]))
            assert listener.getsockname() == (host, int(port)), listener.getsockname()
            for other in range(2):
                connection = listener.accept()[0]
                received = connection.recv(100, socket.MSG_WAITALL)
                assert received == secret, (received, secret)
            assert len(set(secret)) > 8
            try:
                os.pwrite(int(os.environ["SLUICE_SECRET_FD"]), b"x", 0)
                sys.exit("the secret can be changed")
            except PermissionError:
                print(secret.hex())
        """)
        code, out, error = self.launch(["-n", "3", "--", program])
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(len(bytes.fromhex(out.strip())), 32)

    def test_the_launcher_keeps_no_copy_of_the_socket(self):
        # Or a rank would wait for an answer of rank 0 when there is no rank 0 any more.
        program = self.program("""
            host, port = os.environ["SLUICE_RENDEZVOUS"].split(":")
            if rank == 0:
                sys.exit(0)
            for attempt in range(500):
                try:
                    socket.create_connection((host, int(port))).close()
                except ConnectionRefusedError:
                    sys.exit(0)
                time.sleep(0.01)
            sys.exit(1)
        """)
        self.assertEqual(self.launch(["-n", "2", "--", program]), (0, "", ""))

    def test_lines_of_other_ranks_are_whole_and_have_their_number(self):
        program = self.program(r"""
            if rank == 0:
                print("10%\r20%", end="", flush=True)
                print("to stderr", file=sys.stderr)
                sys.exit()
            for i in range(20):
                sys.stdout.write("line %d" % i)
                sys.stdout.flush()
                time.sleep(0.002)
                sys.stdout.write(" of %d\n" % rank)
            sys.stdout.write("\nlast")
            sys.stderr.write("error\nof %d" % rank)
        """)
        code, out, error = self.launch(["-n", "3", "--", program])
        self.assertEqual(code, 0)
        # Rank 0's is one piece wherever it comes.
        self.assertIn("10%\r20%", out)
        lines = out.replace("10%\r20%", "").splitlines()
        for rank in (1, 2):
            begin = "[rank %d] " % rank
            self.assertEqual([line for line in lines if line.startswith(begin)],
                             [begin + "line %d of %d" % (i, rank) for i in range(20)] + [begin, begin + "last"])
        self.assertEqual(len(lines), 44)
        self.assertEqual(sorted(error.splitlines()),
                         ["[rank 1] error", "[rank 1] of 1", "[rank 2] error", "[rank 2] of 2", "to stderr"])

    def test_a_line_without_end_comes_in_parts(self):
        program = self.program("""
            if rank == 1:
                sys.stdout.write("x" * 3000000)
        """)
        code, out, _ = self.launch(["-n", "2", "--", program])
        self.assertEqual((code, out.count("x")), (0, 3000000))
        self.assertGreater(out.count("[rank 1] "), 1)

    def test_what_follows_the_program_is_its_own(self):
        program = self.program("""
            print(sys.argv[1:])
        """)
        for arguments in (["-n", "1", "--", program, "-n", "--"], ["-n", "1", program, "-n", "--"]):
            self.assertEqual(self.launch(arguments), (0, "['-n', '--']\n", ""))

    def test_rank_0_has_the_callers_output(self):
        program = self.program("""
            print(os.fstat(1).st_ino)
        """)
        with open(self.path("out"), "wb") as out:
            self.assertEqual(self.start(["-n", "1", "--", program], stdout=out).wait(_DEADLINE), 0)
        self.assertEqual(int(self.read("out")), os.stat(self.path("out")).st_ino)

    def test_cores_are_shared_out(self):
        program = self.program("""
            open("cores.%d" % rank, "w").write(repr(sorted(os.sched_getaffinity(0))))
        """)
        mine = sorted(os.sched_getaffinity(0))
        if len(mine) < 2:
            self.skipTest("needs two cores")
        self.assertEqual(self.launch(["-n", "2", "--", program])[0], 0)
        first, second = (json.loads(self.read("cores.%d" % rank)) for rank in range(2))
        self.assertEqual(sorted(first + second), mine)
        self.assertLessEqual(abs(len(first) - len(second)), 1)
        self.assertEqual(self.launch(["-n", "2", "--cores=all", "--", program])[0], 0)
        self.assertEqual(json.loads(self.read("cores.1")), mine)

    def test_shares_of_cores(self):
        # Two cores with two hardware threads each, numbered as Linux does: 0 and 2 are of one.
        place = {0: [0, 0, 0], 1: [0, 1, 1], 2: [0, 0, 2], 3: [0, 1, 3], 7: [1, 0, 7]}
        with mock.patch.object(launch, "_core_place", place.get), mock.patch("os.sched_getaffinity", lambda _: {0, 1, 2, 3}):
            self.assertEqual(launch.split_cores(2), [[0, 2], [1, 3]])
            self.assertEqual(launch.split_cores(3), [[0], [2], [1, 3]])
            self.assertEqual(launch.split_cores(5), [None] * 5)
        with mock.patch.object(launch, "_core_place", place.get), mock.patch("os.sched_getaffinity", lambda _: set(place)):
            self.assertEqual(launch.split_cores(2), [[0, 2], [1, 3, 7]])


class EndsTest(LaunchTest):

    def test_the_first_failure_is_named_and_its_code_returned(self):
        program = self.program("""
            if rank == 2:
                sys.exit(3)
            time.sleep(0.2)
            sys.exit(rank)
        """)
        code, _, error = self.launch(["-n", "3", "--", program])
        self.assertEqual(code, 3)
        self.assertRegex(error, r"^launch: rank 2 ended with code 3 after \d+\.\d s; of the others ended by themselves: 0, 1\n$")

    def test_of_ends_at_once_a_killed_rank_is_the_reason(self):
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            while not os.path.exists("end"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL) if rank == 1 else sys.exit(1)
        """)
        process = self.start(["-n", "3", "--", program])
        ranks = self.pids(3)
        process.send_signal(signal.SIGSTOP)  # so that it sees all of them in one look
        open(self.path("end"), "wb").close()
        self.assert_gone(ranks)
        process.send_signal(signal.SIGCONT)
        _, error = process.communicate(timeout=_DEADLINE)
        self.assertEqual(process.returncode, 128 + 9)
        self.assertIn(b"launch: rank 1 was killed", error)

    def test_a_killed_rank_ends_the_others_in_the_grace_time(self):
        # Rank 1 does not hear of it, rank 2 will not hear SIGTERM, rank 3 stands still.
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            if rank == 2:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if rank == 3:
                os.kill(os.getpid(), signal.SIGSTOP)
            if rank == 0:
                while not sum(name.startswith("pid.") for name in os.listdir(".")) == 5:
                    time.sleep(0.01)
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 4:
                time.sleep(0.5)
                sys.exit(0)
            time.sleep(100)
        """)
        started = time.monotonic()
        code, _, error = self.launch(["-n", "5", "--grace=2", "--", program])
        self.assertEqual(code, 128 + 9)
        self.assertRegex(error, r"^launch: rank 0 was killed by signal 9 \(SIGKILL\) after \d+\.\d s; of the others "
                         r"ended by themselves: 4; ended on SIGTERM: 1; killed: 2, 3\n$")
        self.assertGreater(time.monotonic() - started, 3)
        self.assert_gone(self.pids(5))

    def test_what_a_rank_started_ends_with_it(self):
        program = self.program("""
            sleep 100 & : > pid.$!
            : > pid.$$
            exit 0
        """, python=False)
        self.assertEqual(self.launch(["-n", "2", "--", program])[0], 0)
        self.assert_gone(self.pids(4))

    def test_all_end_with_the_launcher_however_it_ends(self):
        program = self.program("""
            sleep 100 & : > pid.$!
            : > pid.$$
            wait
        """, python=False)
        process = self.start(["-n", "2", "--", program])
        ranks = self.pids(4)
        everyone = {process.pid}
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
            everyone.update(map(int, file.read().split()))
        self.assertEqual(len(everyone - set(ranks)), 2)  # itself and its keeper
        process.kill()
        process.wait()
        self.assert_gone(everyone | set(ranks))

    def without_keeper(self):
        """A launcher whose keeper somebody has killed, and its ranks."""
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            while not os.path.exists("end"):
                time.sleep(0.01)
        """)
        process = self.start(["-n", "2", "--", program])
        ranks = self.pids(2)
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
            keeper, = set(map(int, file.read().split())) - set(ranks)
        os.kill(keeper, signal.SIGKILL)
        self.assert_gone([keeper])
        return process, ranks

    def test_ranks_end_with_the_launcher_though_its_keeper_is_gone(self):
        process, ranks = self.without_keeper()
        process.kill()
        self.assert_gone(ranks)

    def test_a_job_goes_on_without_the_keeper(self):
        process, _ = self.without_keeper()
        open(self.path("end"), "wb").close()
        self.assertEqual(process.wait(_DEADLINE), 0)

    def test_signals_go_on_to_all_ranks_once(self):
        program = self.program("""
            def note(number, frame):
                with open("got.%d" % rank, "a") as file:
                    file.write("%d " % number)
                if number == signal.SIGTERM:
                    sys.exit(0)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, note)
            open("pid.%d" % os.getpid(), "w").close()
            while True:
                time.sleep(0.01)
        """)
        process = self.start(["-n", "2", "--", program])
        self.pids(2)
        for count, number in enumerate((signal.SIGINT, signal.SIGHUP, signal.SIGTERM), 1):
            process.send_signal(number)
            self.wait_for(lambda: all(os.path.exists(self.path("got.%d" % rank)) and
                                      len(self.read("got.%d" % rank).split()) == count for rank in range(2)))
        out, error = process.communicate(timeout=_DEADLINE)
        self.assertEqual((process.returncode, out, error), (0, b"", b""))
        self.assertEqual([self.read("got.0"), self.read("got.1")], ["2 1 15 "] * 2)

    def test_ends_as_ranks_end_on_a_signal(self):
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            time.sleep(100)
        """)
        process = self.start(["-n", "2", "--restarts=3", "--", program])
        self.pids(2)
        process.terminate()
        _, error = process.communicate(timeout=_DEADLINE)
        self.assertEqual((process.returncode, error), (128 + 15, b""))

    def test_stops_and_goes_on_with_the_terminal(self):
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            while not os.path.exists("end"):
                time.sleep(0.01)
        """)
        process = self.start(["-n", "2", "--", program])
        ranks = self.pids(2)
        process.send_signal(signal.SIGTSTP)

        def states():
            found = []
            for pid in [process.pid] + ranks:
                with open("/proc/%d/stat" % pid, encoding="ascii") as file:
                    found.append(file.read().rpartition(")")[2].split()[0])
            return found
        self.wait_for(lambda: states() == ["T"] * 3)
        process.send_signal(signal.SIGCONT)
        self.wait_for(lambda: "T" not in states())
        open(self.path("end"), "wb").close()
        self.assertEqual(process.wait(_DEADLINE), 0)

    def test_a_reader_that_stands_still_holds_nothing_up(self):
        program = self.program("""
            with open("written.%d" % rank, "w") as written:
                open("pid.%d" % os.getpid(), "w").close()
                while rank == 1:
                    os.write(1, b"line\\n" * 1000)
                    written.write("x")
                    written.flush()
            time.sleep(100)
        """)
        process = self.start(["-n", "2", "--", program])
        ranks = self.pids(2)

        def stands():
            before = os.path.getsize(self.path("written.1"))
            time.sleep(0.3)
            return 0 < before == os.path.getsize(self.path("written.1"))
        self.wait_for(stands)  # rank 1 waits for the reader too, or the launcher would fill the memory with its lines
        process.terminate()
        self.wait_for(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in ranks))
        time.sleep(0.2)
        self.assertIsNone(process.poll())  # it waits for the reader
        process.terminate()
        self.assertEqual(process.wait(_DEADLINE), 128 + 15)

    def test_a_rank_that_closed_its_output_costs_nothing(self):
        program = self.program("""
            os.close(1)
            os.close(2)
            open("pid.%d" % os.getpid(), "w").close()
            time.sleep(100)
        """)
        process = self.start(["-n", "2", "--", program])
        self.pids(2)

        def ticks():
            with open("/proc/%d/stat" % process.pid, encoding="ascii") as file:
                return sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        time.sleep(0.2)
        before = ticks()
        time.sleep(0.5)
        self.assertLess(ticks() - before, 10)

    def test_a_terminal(self):
        # Ctrl-C comes once, by the launcher alone, and ranks may print though another group has the terminal.
        program = self.program("""
            def note(number, frame):
                os.write(1, b"rank %d got %d\\n" % (rank, number))
            signal.signal(signal.SIGINT, note)
            signal.signal(signal.SIGTERM, note)
            os.write(1, b"rank %d is here\\n" % rank)
            while not os.path.exists("end"):
                time.sleep(0.01)
        """)
        pid, terminal = pty.fork()
        if pid == 0:
            _hear_signals()
            attributes = termios.tcgetattr(0)
            attributes[3] |= termios.TOSTOP
            termios.tcsetattr(0, termios.TCSANOW, attributes)
            os.execve(sys.executable, [sys.executable, "-c", _DRIVER, "-n", "2", "--", program], self.environment)
        seen = b""

        def until(*words):
            nonlocal seen
            end = time.monotonic() + _DEADLINE
            while not all(word in seen for word in words):
                self.assertTrue(select.select([terminal], [], [], end - time.monotonic())[0], seen)
                seen += os.read(terminal, 4096)
        try:
            until(b"rank 0 is here", b"[rank 1] rank 1 is here")
            os.write(terminal, b"\x03")
            until(b"rank 0 got 2", b"[rank 1] rank 1 got 2")
            time.sleep(0.1)
            os.kill(pid, signal.SIGTERM)
            until(b"rank 0 got 15", b"[rank 1] rank 1 got 15")
            open(self.path("end"), "wb").close()  # what a terminal has not shown when its leader ends is lost
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            pid = 0
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(terminal)
        self.assertEqual((seen.count(b"got 2"), seen.count(b"got 15")), (2, 2))

    def test_ranks_go_on_without_a_reader(self):
        program = self.program("""
            for i in range(1000):
                print("a line") if rank else None
            open("done.%d" % rank, "w").close()
        """)
        reading, writing = os.pipe()
        os.close(reading)
        process = self.start(["-n", "2", "--", program], stdout=writing)
        os.close(writing)
        self.assertEqual(process.wait(_DEADLINE), 0)
        self.assertTrue(os.path.exists(self.path("done.1")))

    def test_closed_descriptors_are_not_taken_for_pipes(self):
        program = self.program("""
            print("line")
            print("error", file=sys.stderr)
            if rank == 0:
                for descriptor in (0, 1, 2):
                    assert os.readlink("/proc/%d/fd/%d" % (os.getppid(), descriptor)) == "/dev/null"
        """)
        process = self.start(["-n", "2", "--", program], stdout=None, stderr=None,
                             prepare=lambda: [os.close(descriptor) for descriptor in (0, 1, 2)])
        self.assertEqual(process.wait(_DEADLINE), 0)


class RestartsTest(LaunchTest):

    def test_all_begin_again_until_it_goes_well(self):
        program = self.program("""
            restarts = int(os.environ["SLUICE_RESTARTS"])
            secret = os.pread(int(os.environ["SLUICE_SECRET_FD"]), 32, 0).hex()
            open("begun", "a").write("%d:%d:%s\\n" % (restarts, rank, secret))
            if rank == 0:
                open("descriptors", "a").write("%d\\n" % len(os.listdir("/proc/%d/fd" % os.getppid())))
                time.sleep(0.1)
            sys.exit(5 if rank == 1 and restarts < 2 else 0)
        """)
        code, _, error = self.launch(["-n", "2", "--restarts=3", "--", program])
        self.assertEqual(code, 0)
        lines = [line.split(":") for line in self.read("begun").split()]
        self.assertEqual(sorted(line[:2] for line in lines), [[str(i), str(rank)] for i in range(3) for rank in range(2)])
        self.assertEqual(len({line[2] for line in lines}), 3)  # a rank of the last start cannot come in
        self.assertRegex(error, r"^(launch: rank 1 ended with code 5 after \d+\.\d s; of the others ended by themselves: 0; "
                         r"restart \d of 3\n){2}$")
        self.assertIn("restart 1 of 3", error)
        self.assertIn("restart 2 of 3", error)

    def test_no_descriptors_are_left_by_a_start(self):
        program = self.program("""
            if rank == 1:
                open("descriptors", "a").write("%d\\n" % len(os.listdir("/proc/%d/fd" % os.getppid())))
                sys.exit(1)
            time.sleep(100)
        """)
        self.launch(["-n", "2", "--restarts=3", "--grace=0.1", "--", program])
        counts = self.read("descriptors").split()
        self.assertEqual(len(counts), 4)
        self.assertEqual(len(set(counts)), 1, counts)

    def test_as_often_as_was_asked_for(self):
        program = self.program("""
            open("begun", "a").write("x")
            os.kill(os.getpid(), signal.SIGSEGV)
        """)
        code, _, error = self.launch(["-n", "1", "--restarts=2", "--", program])
        self.assertEqual((code, self.read("begun")), (128 + 11, "xxx"))
        self.assertEqual(error.count("\n"), 3)
        self.assertRegex(error.splitlines()[-1], r"^launch: rank 0 was killed by signal 11 \(SIGSEGV\) after \d+\.\d s$")

    def test_bad_flags_stay_bad(self):
        program = self.program("""
            open("begun", "a").write("x")
            sys.exit(2)
        """)
        code, _, error = self.launch(["-n", "1", "--restarts=2", "--", program])
        self.assertEqual((code, self.read("begun"), error.count("\n")), (2, "x", 1))

    def test_a_signal_ends_the_job_for_good(self):
        program = self.program("""
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
            open("pid.%d" % os.getpid(), "w").close()
            time.sleep(100)
        """)
        process = self.start(["-n", "1", "--restarts=2", "--", program])
        self.pids(1)
        process.terminate()
        _, error = process.communicate(timeout=_DEADLINE)
        self.assertEqual(process.returncode, 7)
        self.assertRegex(error.decode(), r"^launch: rank 0 ended with code 7 after \d+\.\d s\n$")
        self.assertEqual(len(self.pids(1)), 1)


class UseTest(LaunchTest):

    def test_bad_use_is_one_line(self):
        plain = self.path("plain")
        open(plain, "wb").close()
        broken = self.path("broken")
        with open(broken, "wb") as file:
            file.write(b"\x7fELF nothing")
        os.chmod(broken, 0o755)
        for arguments, expected in (
                ([], "the following arguments are required: -n/--ranks"),
                (["-n", "2"], "expected a program after --, got none"),
                (["-n", "0", "--", "true"], "argument -n/--ranks: expected a number from 1 to 256, got '0'"),
                (["-n", "257", "--", "true"], "argument -n/--ranks: expected a number from 1 to 256, got '257'"),
                (["-n", "x", "--", "true"], "argument -n/--ranks: expected a number from 1 to 256, got 'x'"),
                (["-n", "1", "--grace=nan", "--", "true"], "argument --grace: expected a number from 0"),
                (["-n", "1", "--grace=-1", "--", "true"], "argument --grace: expected a number from 0"),
                (["-n", "1", "--restarts=-1", "--", "true"], "argument --restarts: expected a number from 0"),
                (["-n", "1", "--cores=most", "--", "true"], "argument --cores: invalid choice: 'most'"),
                (["--rank", "1", "--", "true"], "the following arguments are required: -n/--ranks"),
                (["-n", "1", "--", "./none"], "./none: expected a program or a label such as //models/gpt:train, and there is no"),
                (["-n", "1", "--", plain], plain + ": expected a program, and the file is not executable"),
                (["-n", "1", "--", broken], "cannot start %s: [Errno 8] Exec format error" % broken),
                (["-n", "1", "--", "//a:b"], "//a:b: a label can be built under `bazel run` alone"),
                (["-n", "1", "--", "//a b"], "//a b: expected a label such as //models/gpt:train"),
        ):
            code, out, error = self.launch(arguments)
            self.assertEqual((code, out, error.count("\n")), (2, "", 1), (arguments, error))
            self.assertTrue(error.startswith("launch: " + expected), error)

    def test_help_has_examples(self):
        code, out, _ = self.launch(["--help"])
        self.assertEqual(code, 0)
        self.assertIn("bazel run //tools:launch -- -n 4 -- //models/gpt:train", out)

    def workspace(self, bazelw):
        folder = self.path("workspace")
        os.makedirs(os.path.join(folder, "out/models/gpt"))
        with open(os.path.join(folder, "bazelw"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho \"$PWD $*\" >>%s\n" % self.path("bazel.log") + bazelw)
        os.chmod(os.path.join(folder, "bazelw"), 0o755)
        self.environment["BUILD_WORKSPACE_DIRECTORY"] = folder
        return folder

    def test_a_label_is_built_and_run_where_the_caller_is(self):
        folder = self.workspace("""
            case $1 in
              build) echo noise; printf '#!/bin/sh\\npwd\\n' >out/models/gpt/train; chmod +x out/models/gpt/train ;;
              info) echo "$PWD/out" ;;
            esac
        """)
        for label in ("//models/gpt:train", "models/gpt:train"):
            code, out, error = self.launch(["-n", "1", "--", label])
            self.assertEqual((code, out, error), (0, self.folder + "\n", "noise\n"))
            self.assertEqual(self.read("bazel.log"), "%s build %s\n%s info bazel-bin\n" % (folder, label, folder))
            os.remove(self.path("bazel.log"))

    def test_a_label_without_a_name_is_its_package(self):
        self.workspace("""
            mkdir -p out/a/b; printf '#!/bin/sh\\necho here\\n' >out/a/b/b; chmod +x out/a/b/b
            test $1 = build || echo "$PWD/out"
        """)
        self.assertEqual(self.launch(["-n", "1", "--", "//a/b"])[1], "here\n")

    def test_what_cannot_be_built_is_not_run(self):
        self.workspace("exit 7\n")
        self.assertEqual(self.launch(["-n", "1", "--", "//a:b"]),
                         (1, "", "launch: //a:b: could not be built; bazel ended with code 7\n"))

    def test_a_label_of_no_program(self):
        folder = self.workspace("test $1 = build || echo \"$PWD/out\"\n")
        code, _, error = self.launch(["-n", "1", "--", "//a:b"])
        self.assertEqual(code, 2)
        self.assertEqual(error, "launch: //a:b: expected the label of a program; its build has made no %s/out/a/b\n" % folder)


if __name__ == "__main__":
    unittest.main()
