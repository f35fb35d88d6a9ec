"""The launcher on hosts, which are this machine: reached by a shell that is not remote, and by ssh and a server of this user's.

Where ssh or its server is missing, the test prints a line that begins with SKIPPED, which .ci/run shows.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import launch_hosts
import launch_ranks
import ssh_lab
from tools import launch_lab

_HERE = "--remote_shell=sh -c 'exec sh -c \"$1\"'"
_PATH = os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin"
_TELL = """
    import json
    told = {name: value for name, value in os.environ.items() if name.startswith("SLUICE_")}
    told["secret"] = os.pread(int(os.environ["SLUICE_SECRET_FD"]), 64, 0).hex()
    told["folder"], told["arguments"] = os.getcwd(), sys.argv[1:]
    print(json.dumps(told))
    sys.exit(int(os.environ.get("CODE", "0")) if rank == 1 else 0)
"""
_WAIT = """
    open("pid.%d" % os.getpid(), "w").close()
    def note(number, frame):
        open("got.%d.%d" % (rank, number), "a").write("x")
        sys.exit(0)
    signal.signal(signal.SIGTERM, note)
    while True:
        time.sleep(0.01)
"""


class HostsTest(launch_lab.LaunchTest):

    def setUp(self):
        super().setUp()
        self.environment.update({"XDG_CACHE_HOME": self.path("cache"), "PATH": _PATH})

    def hosts(self, text):
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.write(text)
        return "--hosts=" + self.path("hosts")

    def told(self, out):
        return sorted((json.loads(re.sub(r"^\[rank \d+\] ", "", line)) for line in out.splitlines()),
                      key=lambda told: int(told["SLUICE_RANK"]))


class HereTest(HostsTest):

    def test_what_ranks_are_told(self):
        hosts = self.hosts("# two machines\na slots=2 address=127.0.0.1\n\nb # the other\n")
        code, out, error = self.launch([hosts, _HERE, "--", self.program(_TELL), "--mesh=data=3"])
        self.assertEqual((code, error), (0, ""))
        told = self.told(out)
        self.assertEqual([(one["SLUICE_RANK"], one["SLUICE_LOCAL_RANK"], one["SLUICE_LOCAL_RANKS"]) for one in told],
                         [("0", "0", "2"), ("1", "1", "2"), ("2", "0", "1")])
        for name in ("SLUICE_RANKS", "SLUICE_RENDEZVOUS", "secret", "folder", "SLUICE_RESTARTS"):
            self.assertEqual(len({one[name] for one in told}), 1, name)
        self.assertEqual((told[0]["SLUICE_RANKS"], told[0]["folder"], told[0]["arguments"]), ("3", self.folder, ["--mesh=data=3"]))
        self.assertRegex(told[0]["SLUICE_RENDEZVOUS"], r"^127\.0\.0\.1:\d+$")
        self.assertEqual(["SLUICE_LISTENER_FD" in one for one in told], [True, False, False])
        self.assertEqual(len(told[0]["secret"]), 64)

    def test_fewer_ranks_than_slots_and_another_folder(self):
        os.mkdir(self.path("other"))
        arguments = [self.hosts("a slots=2 address=127.0.0.1\nb slots=9"), _HERE, "-n", "3", "--folder=" + self.path("other"), "--"]
        told = self.told(self.launch(arguments + [self.program(_TELL)])[1])
        self.assertEqual([(one["SLUICE_LOCAL_RANKS"], one["folder"]) for one in told],
                         [("2", self.path("other"))] * 2 + [("1", self.path("other"))])

    def test_the_program_is_copied_once(self):
        hosts, program = self.hosts("a address=127.0.0.1\nb"), self.program("""
            print(os.path.abspath(__file__) if rank == 0 else "", end="")
        """)
        first = self.launch([hosts, _HERE, "--", program])[1].strip()
        self.assertTrue(first.startswith(self.path("cache/sluice/programs/")), first)
        written = os.stat(first).st_mtime_ns
        self.assertEqual((self.launch([hosts, _HERE, "--", program])[1].strip(), os.stat(first).st_mtime_ns), (first, written))
        self.assertEqual(os.listdir(os.path.dirname(first)), [os.path.basename(program)])
        with open(program, "a", encoding="ascii") as file:
            file.write("# changed\n")
        os.utime(os.path.dirname(first), (0, 0))
        self.assertNotEqual(self.launch([hosts, _HERE, "--", program])[1].strip(), first)
        self.assertFalse(os.path.exists(first), "a program of long ago was kept")

    def test_the_secret_is_on_no_command_line_and_in_no_variable(self):
        program = self.program("""
            secret = os.pread(int(os.environ["SLUICE_SECRET_FD"]), 64, 0)
            pid, found = os.getpid(), []
            while pid > 1:
                for name in ("cmdline", "environ"):
                    data = open("/proc/%d/%s" % (pid, name), "rb").read()
                    found += [pid] * (secret in data or secret.hex().encode() in data)
                pid = int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1])
            print(len(secret), found)
        """)
        self.assertEqual(self.launch([self.hosts("a address=127.0.0.1"), _HERE, "--", program])[1], "32 []\n")

    def test_the_first_failure_is_named_with_its_host(self):
        hosts = self.hosts("a address=127.0.0.1\nb\nc")
        for what, words in (("sys.exit(7)", "ended with code 7"), ("os.kill(os.getpid(), 9)", "was killed by signal 9 (SIGKILL)")):
            program = self.program("""
                if rank == 1:
                    %s
                time.sleep(30)
            """ % what)
            code, _, error = self.launch([hosts, _HERE, "--grace=0.1", "--", program])
            others = "of the others ended on SIGTERM: 0, 2"
            self.assertRegex(error, r"^launch: rank 1 on b %s after .* s; %s\n$" % (re.escape(words), others))
            self.assertEqual(code, 7 if "7" in what else 128 + 9)

    def test_all_begin_again(self):
        program = self.program("""
            open("begun", "a").write("x")
            sys.exit(5 if rank == 1 and os.environ["SLUICE_RESTARTS"] == "0" else 0)
        """)
        code, _, error = self.launch([self.hosts("a address=127.0.0.1\nb"), _HERE, "--restarts=1", "--grace=1", "--", program])
        self.assertEqual((code, len(self.read("begun"))), (0, 4), error)
        self.assertIn("restart 1 of 1", error)

    def test_signals_go_on_to_all_ranks_once(self):
        process = self.start([self.hosts("a address=127.0.0.1\nb"), _HERE, "--", self.program(_WAIT)])
        pids = self.pids(2)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(launch_lab.DEADLINE), 0)
        self.assertEqual([self.read("got.%d.15" % rank) for rank in range(2)], ["x", "x"])
        self.assert_gone(pids)

    def test_ranks_end_with_the_launcher(self):
        process = self.start([self.hosts("a address=127.0.0.1\nb"), _HERE, "--", self.program(_WAIT)])
        pids = self.pids(2)
        process.kill()
        self.assert_gone(pids)

    def test_bad_use_is_one_line(self):
        program = self.program("")
        path = self.path("hosts")
        for text, more, expected in (
                ("", [], "--hosts=%s: expected a host in it, got none" % path),
                ("a\nb slots=0", [], "--hosts=%s: line 2: expected NAME [slots=N] [address=IP], got 'slots=0'" % path),
                ("a 2", [], "--hosts=%s: line 1: expected NAME [slots=N] [address=IP], got '2'" % path),
                ("a\na", [], "--hosts=%s: line 2: expected the name of another host, got 'a'" % path),
                ("-oProxyCommand=x", [], "--hosts=%s: line 1: expected the name of another host" % path),
                ("a slots=2", ["-n", "3"], "--hosts has 2 slots: expected at most 2 ranks, got 3 (-n says how many)"),
                ("a slots=300", [], "--hosts has 300 slots: expected at most 256 ranks, got 300"),
                ("no.such.host.invalid\nb", [], "no.such.host.invalid: no address by which others reach it"),
                ("localhost\nb", [], "localhost: its name stands for "),
                ("a address=127.0.0.1\nb", ["--folder=/none"], "a: there is no folder /none (--folder names another); b: there "),
                ("a address=127.0.0.1", ["--remote_shell=sh -c 'echo no such host >&2; exit 255'"], "a: no such host"),
                ("a address=127.0.0.1", ["--remote_shell=sh -c 'echo hi; cat >/dev/null'"], "a: expected the launcher's agent to answer, got 'hi'"),
                ("a address=127.0.0.1", ["--remote_shell=/none"], "cannot start ")):
            code, out, error = self.launch([self.hosts(text), _HERE, *more, "--", program])
            self.assertEqual((code, out), (2, ""), text)
            self.assertTrue(error.startswith("launch: " + expected) and error.count("\n") == 1, (text, error))
        self.assertIn("argument --folder: expected --hosts beside it", self.launch(["-n", "1", "--folder=/", "--", program])[2])
        self.assertIn("expected a list of hosts", self.launch(["--hosts=/none", "--", program])[2])
        code, _, error = self.launch([self.hosts("a address=192.0.2.1"), _HERE, "--", program])
        self.assertEqual(code, 2)
        self.assertIn("launch: a: [Errno 99] Cannot assign requested address", error)


class AgentTest(HostsTest):
    """One agent, spoken to by the test in the launcher's place."""

    def start_agent(self, program, silence):
        text = "import sys, launch_agent; launch_agent._SILENCE_LIMIT = %s; sys.exit(launch_agent.agent())" % silence
        agent = subprocess.Popen([sys.executable, "-c", text], env=self.environment, cwd=self.folder, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        self.addCleanup(self._end, agent)
        place = {"rank": 0, "ranks": 1, "local_rank": 0, "local_ranks": 1, "restarts": 0}
        order = {"command": [program], "folder": self.folder, "place": place, "address": "127.0.0.1", "secret": "00" * 32,
                 "cores": "all"}
        agent.stdin.write(json.dumps(order).encode() + b"\n")
        agent.stdin.flush()
        self.assertIn("port", json.loads(agent.stdout.readline()))
        return agent

    def test_who_says_nothing_any_more_is_gone(self):
        agent = self.start_agent(self.program(_WAIT), 1)
        pids = self.pids(1)
        for _ in range(8):
            agent.stdin.write(b"\n")
            agent.stdin.flush()
            time.sleep(0.25)
        self.assertIsNone(agent.poll())
        begin = time.monotonic()
        self.assertEqual(agent.wait(launch_lab.DEADLINE), 128 + signal.SIGKILL)
        self.assertGreater(time.monotonic() - begin, 0.5)
        self.assert_gone(pids)

    def test_who_stands_still_on_the_terminals_signal_is_not(self):
        agent = self.start_agent(self.program(_WAIT), 0.5)
        pids = self.pids(1)
        agent.stdin.write(b"signal %d\n" % signal.SIGSTOP)
        agent.stdin.flush()
        time.sleep(2)
        self.assertIsNone(agent.poll())
        agent.stdin.close()
        self.assertEqual(agent.wait(launch_lab.DEADLINE), 128 + signal.SIGKILL)
        self.assert_gone(pids)


class SshTest(HostsTest):

    def setUp(self):
        super().setUp()
        trouble = ssh_lab.missing()
        if trouble:
            print("\nSKIPPED: //tools:launch_hosts_test: " + trouble, file=sys.stderr)
            self.skipTest(trouble)
        os.mkdir(self.path("ssh"))
        self.servers = ssh_lab.SshServers(self.path("ssh"), self.path("cache"))
        self.addCleanup(self.servers.stop)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.servers.start(["a", "b"], "127.0.0.1", port)
        self.arguments = [self.hosts("a address=127.0.0.1\nb"), "--remote_shell=" + self.servers.remote_shell]

    def test_ranks_on_hosts(self):
        code, out, error = self.launch(self.arguments + ["--", self.program(_TELL), "a b", "$HOME", "'"])
        self.assertEqual((code, error), (0, ""), self.servers.log())
        told = self.told(out)
        self.assertEqual([one["SLUICE_RANK"] for one in told], ["0", "1"])
        self.assertEqual(told[0]["arguments"], ["a b", "$HOME", "'"])

    def test_a_name_is_looked_up_as_ssh_does(self):
        self.arguments[0] = self.hosts("a")
        code, out, error = self.launch(self.arguments + ["--", self.program(_TELL)])
        self.assertEqual((code, error), (0, ""), self.servers.log())
        self.assertRegex(self.told(out)[0]["SLUICE_RENDEZVOUS"], r"^127\.0\.0\.1:")

    def test_all_end_when_one_fails_or_the_launcher_is_killed(self):
        program = self.program(_WAIT)
        process = self.start(self.arguments + ["--grace=0.2", "--", program])
        pids = self.pids(2)
        os.kill(pids[0], signal.SIGKILL)
        _, error = process.communicate(timeout=launch_lab.DEADLINE)
        self.assertEqual(process.returncode, 128 + 9)
        self.assertRegex(error.decode(), r"^launch: rank \d on [ab] was killed by signal 9 \(SIGKILL\) after .*: \d\n$")
        self.assert_gone(pids)
        for pid in pids:
            os.unlink(self.path("pid.%d" % pid))
        process = self.start(self.arguments + ["--", program])
        pids = self.pids(2)
        process.kill()
        self.assert_gone(pids)

    def test_a_connection_that_is_lost_is_a_rank_that_failed(self):
        process = self.start(self.arguments + ["--grace=0.2", "--", self.program(_WAIT)])
        pids = self.pids(2)
        server = self.servers.servers[0].pid
        with open("/proc/%d/task/%d/children" % (server, server), encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        _, error = process.communicate(timeout=launch_lab.DEADLINE)
        self.assertRegex(error.decode(), r"launch: rank \d on [ab] ended with code 255 ")
        self.assert_gone(pids)

    def test_who_is_not_let_in_says_so(self):
        self.servers.lock_out()
        code, _, error = self.launch(self.arguments + ["--", self.program(_TELL)])
        self.assertEqual(code, 2)
        self.assertRegex(error, r"^launch: a: .*Permission denied .*; b: .*Permission denied .*\n$")


class ReadHostsTest(unittest.TestCase):

    def test_a_folder_is_no_list(self):
        with self.assertRaisesRegex(launch_ranks.Refusal, "expected a list of hosts"):
            launch_hosts.read_hosts("/")


if __name__ == "__main__":
    unittest.main()
