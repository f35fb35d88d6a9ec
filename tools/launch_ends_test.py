"""How jobs end, and what they leave: nothing."""

import os
import pty
import select
import signal
import sys
import termios
import time
import unittest

from tools import launch_lab


class EndsTest(launch_lab.LaunchTest):

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
        _, error = process.communicate(timeout=launch_lab.DEADLINE)
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

    def kept(self, prepare=lambda: None):
        """A launcher, its keeper and its ranks, which go on until there is a file "end"."""
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            while not os.path.exists("end"):
                time.sleep(0.01)
        """)
        process = self.start(["-n", "2", "--", program], prepare)
        ranks = self.pids(2)
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
            keeper, = set(map(int, file.read().split())) - set(ranks)
        return process, keeper, ranks

    def test_ranks_end_with_the_launcher_though_its_keeper_is_gone(self):
        process, keeper, ranks = self.kept()
        os.kill(keeper, signal.SIGKILL)
        self.assert_gone([keeper])
        process.kill()
        self.assert_gone(ranks)

    def test_a_job_goes_on_without_the_keeper(self):
        process, keeper, _ = self.kept()
        os.kill(keeper, signal.SIGKILL)
        self.assert_gone([keeper])
        open(self.path("end"), "wb").close()
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)

    def test_the_keeper_stays_until_the_launcher_has_ended(self):
        process, keeper, _ = self.kept()
        self.assertEqual(os.getsid(keeper), keeper)  # a terminal's signals go by
        self.assertEqual(os.readlink("/proc/%d/fd/1" % keeper), "/dev/null")  # who reads the job's output sees its end
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # and so do those to all that a user has
            os.kill(keeper, number)
        time.sleep(0.2)
        self.assertTrue(launch_lab.alive(keeper))
        open(self.path("end"), "wb").close()
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)

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
        out, error = process.communicate(timeout=launch_lab.DEADLINE)
        self.assertEqual((process.returncode, out, error), (0, b"", b""))
        self.assertEqual([self.read("got.0"), self.read("got.1")], ["2 1 15 "] * 2)

    def test_nohup_stays_nohup(self):
        process, _, _ = self.kept(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        open(self.path("end"), "wb").close()
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)

    def test_ends_as_ranks_end_on_a_signal(self):
        program = self.program("""
            open("pid.%d" % os.getpid(), "w").close()
            time.sleep(100)
        """)
        process = self.start(["-n", "2", "--restarts=3", "--", program])
        self.pids(2)
        process.terminate()
        _, error = process.communicate(timeout=launch_lab.DEADLINE)
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
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)

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
        self.assertEqual(process.wait(launch_lab.DEADLINE), 128 + 15)

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
            launch_lab.hear_signals()
            attributes = termios.tcgetattr(0)
            attributes[3] |= termios.TOSTOP
            termios.tcsetattr(0, termios.TCSANOW, attributes)
            os.execve(sys.executable, [sys.executable, "-c", launch_lab.DRIVER, "-n", "2", "--", program], self.environment)
        seen = b""

        def until(*words):
            nonlocal seen
            end = time.monotonic() + launch_lab.DEADLINE
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
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)
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
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)


if __name__ == "__main__":
    unittest.main()
