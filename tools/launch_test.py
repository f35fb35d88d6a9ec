import json
import os
import time
import unittest
from unittest import mock

import launch_agent
import launch_hosts
import launch_ranks
from tools import launch
from tools import launch_lab


class RanksTest(launch_lab.LaunchTest):

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

    def test_bazels_path_of_our_modules_is_not_the_ranks(self):
        program = self.program("""
            print(os.environ["PYTHONPATH"])
        """)
        runfiles = self.path("launch.runfiles")
        os.makedirs(os.path.join(runfiles, "sluice/tools"))
        for module in (launch, launch_agent, launch_hosts, launch_ranks):
            os.symlink(os.path.abspath(module.__file__), os.path.join(runfiles, "sluice/tools", os.path.basename(module.__file__)))
        self.environment["PYTHONPATH"] = ":".join([runfiles, "/other", runfiles + "/sluice", runfiles + "/sluice/tools"])
        self.assertEqual(self.launch(["-n", "1", "--", program]), (0, "/other\n", ""))

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
            self.assertEqual(self.start(["-n", "1", "--", program], stdout=out).wait(launch_lab.DEADLINE), 0)
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
        with mock.patch.object(launch_agent, "_core_place", place.get), mock.patch("os.sched_getaffinity", lambda _: {0, 1, 2, 3}):
            self.assertEqual(launch_agent.split_cores(2), [[0, 2], [1, 3]])
            self.assertEqual(launch_agent.split_cores(3), [[0], [2], [1, 3]])
            self.assertEqual(launch_agent.split_cores(5), [None] * 5)
        with mock.patch.object(launch_agent, "_core_place", place.get), mock.patch("os.sched_getaffinity", lambda _: set(place)):
            self.assertEqual(launch_agent.split_cores(2), [[0, 2], [1, 3, 7]])


class RestartsTest(launch_lab.LaunchTest):

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

    def test_what_fails_at_once_waits_longer_each_time(self):
        self.assertEqual([launch.pause_before_restart(quick) for quick in range(11)],
                         [0, 0, 0, 0.5, 1, 2, 4, 8, 16, 30, 30])
        program = self.program("""
            open("begun", "a").write("%f\\n" % time.monotonic())
            sys.exit(1)
        """)
        code, _, error = self.launch(["-n", "1", "--restarts=4", "--", program])
        self.assertEqual(code, 1)
        begun = list(map(float, self.read("begun").split()))
        self.assertEqual(len(begun), 5)
        self.assertGreater(begun[3] - begun[2], 0.5)
        self.assertGreater(begun[4] - begun[3], 1)
        self.assertIn("; restart 2 of 4\n", error)
        self.assertIn("; restart 3 of 4 in 0.5 s\n", error)
        self.assertIn("; restart 4 of 4 in 1 s\n", error)

    def test_a_signal_ends_the_wait(self):
        program = self.program("""
            open("begun", "a").write("x")
            sys.exit(1)
        """)
        process = self.start(["-n", "1", "--restarts=9", "--", program])
        while not os.path.exists(self.path("begun")) or len(self.read("begun")) < 5:
            time.sleep(0.01)
        time.sleep(0.3)  # the fifth start has failed: the next is two seconds away
        process.terminate()
        begin = time.monotonic()
        process.communicate(timeout=launch_lab.DEADLINE)
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual((process.returncode, self.read("begun")), (128 + 15, "xxxxx"))

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
        _, error = process.communicate(timeout=launch_lab.DEADLINE)
        self.assertEqual(process.returncode, 7)
        self.assertRegex(error.decode(), r"^launch: rank 0 ended with code 7 after \d+\.\d s\n$")
        self.assertEqual(len(self.pids(1)), 1)


class UseTest(launch_lab.LaunchTest):

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
                (["--rank", "1", "--", "true"], "unrecognized arguments: --rank"),
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
