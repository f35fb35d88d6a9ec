"""What ci/gpu does where something fails, is missing or takes too long, with programs that are only pretended."""
import contextlib
import io
import json
import os
import tempfile
import unittest

import gpu_command
import gpu_machine
import gpu_pack
import gpu_parts
import gpu_report
import gpu_run
from gpu_machine import Ran

_CARD = "NVIDIA H100 80GB HBM3"
_INFO = """CUDA runtime 13.0, 20 MiB resident
card 0: NVIDIA H100 80GB HBM3, compute capability 9.0, 132 SMs, 79.2 GiB; a kernel: runs
cuBLASLt 13.1.0 in /usr/lib/libcublasLt.so.13, opened in 50 ms, 148 MiB
cuDNN 9.19.0 in /usr/lib/libcudnn.so.9, opened in 1 ms, 2 MiB
NCCL: no libnccl.so.2 where the loader looks; install NCCL 2
"""


def _step(benchmark, size, precision, milliseconds, parameters=100, memory=800):
    return json.dumps({"benchmark": benchmark, "size": size, "title": size.upper(), "precision": precision,
                       "parameters": parameters, "median_ms": milliseconds, "first_loss": 2.0, "last_loss": 1.0,
                       "device_peak_bytes": memory}) + "\n"


def _kernel(name, **more):
    return json.dumps({"name": "ops/gpt_tiny/cuda/bf16/" + name, "value": 200.0, "unit": "ns", **more}) + "\n"


_KERNELS = (_kernel("peak/memory", note="h100") + _kernel("peak/arithmetic", note="h100") +
            _kernel("gelu [8] -> [8]", limit=180.0, note="memory",
                    parts={"times": 4, "share of the step": 0.5, "flops": 8.0, "bytes": 64.0, "working_set": 64.0,
                           "flops_per_second": 4e7, "bytes_per_second": 3e8}) +
            _kernel("kernels of a step", limit=100.0))


class _Machine:
    """Pretends that all is well on an H100; a test says what is not."""

    def __init__(self, **answers):
        self.answers = answers  # by program: Ran, or a function of the command
        self.commands = []
        self.places = {}  # by program: what changes of the environment, and the folder
        self.now = 0.0

    def clock(self):
        return self.now

    def run(self, command, limit, environment=None, folder=None):
        self.places[os.path.basename(command[0])] = (environment, folder)
        self.commands.append(command)
        program = os.path.basename(command[0])
        if "compute-sanitizer" in program:
            program = "sanitizer"
        if command[-1:] and "import torch" in command[-1]:
            program = "find_torch"
        elif program.startswith("python"):
            program = os.path.basename(command[1])
        answer = self.answers.get(program.replace(".py", "").replace("-", "_"), self._well(program, command))
        answer = answer(command) if callable(answer) else answer
        self.now += min(answer.seconds, limit)
        return answer if answer.seconds <= limit else Ran(None, answer.out, answer.err, limit)

    @staticmethod
    def _well(program, command):
        flags = dict(word[2:].split("=", 1) for word in command if word.startswith("--") and "=" in word)
        if program == "nvidia-smi":
            return Ran(0, _CARD + ", 580.1, 81559 MiB, 1980 MHz, 700 W\n")
        if program == "cuda_info":
            return Ran(1, _INFO)
        if program == "find_torch":
            return Ran(0, "torch 2.11 13.0 True\n")
        if program == "wrong_kernels":
            return Ran(0, "none\tall\tno mistake\nshared_race\tracecheck\ta barrier is missing\n")
        if program == "sanitizer":
            return Ran(86 if "--fault=shared_race" in command else 0)
        if program == "gpu_steps":
            return Ran(0, json.dumps({"model": "gpt_tiny", "title": "GPT", "precision": "bf16", "limit_ms": 1.0,
                                      "launches": 7}) + "\n")
        if program == "gpu_step":
            if "trace" in flags:
                with open(flags["trace"], "w", encoding="ascii") as file:
                    file.write('{"traceEvents": [{"ph": "X", "cat": "on device"}]}')
            return Ran(0, _step("gpu_step", flags["model"], flags["precision"], 2.0), seconds=1.0)
        if program == "gpu_kernels":
            return Ran(0, _KERNELS.replace("/bf16/", "/" if flags["precision"] == "f32" else "/bf16/"))
        if program.endswith("_step_torch.py"):
            name = program[:-len("_torch.py")]
            return Ran(0, _step(name, "x", flags["precision"], 5.0, memory=1000), seconds=1.0)
        return Ran(0, "[  PASSED  ] 3 tests.\n")


class _Case(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder, self.out = os.path.join(scratch.name, "packed"), os.path.join(scratch.name, "out")
        os.makedirs(self.out)
        self.said = []

    def run_parts(self, machine, names=None, minutes=9, models=("gpt_tiny",)):
        tools = os.path.join(self.folder, "bin")
        os.makedirs(tools, exist_ok=True)
        for tool in ("compute-sanitizer", "python3"):
            with open(os.path.join(tools, tool), "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n")
            os.chmod(file.name, 0o755)
        context = gpu_parts.Context(folder=self.folder, out=self.out, emulated=False, models=tuple(models), run=machine.run,
                                    clock=machine.clock, environment={"PATH": tools}, log=self.said.append)
        gpu_run.run_parts(context, ["facts"] + [name for name in gpu_parts.PARTS if name != "facts" and
                                                (names is None or name in names)], minutes)
        return context

    @staticmethod
    def states(context, part):
        return {each.name: each.state for each in context.outcomes if each.part == part}


class PartsTest(_Case):

    def test_all_is_well(self):
        machine = _Machine()
        context = self.run_parts(machine)
        self.assertEqual([each for each in context.outcomes if each.state == gpu_parts.FAILED], [])
        # Programs of ours find in the archive what they need; PyTorch's Python is none of them.
        found, folder = machine.places["gpu_step"]
        self.assertEqual(found["LD_LIBRARY_PATH"].split(":")[0], os.path.join(self.folder, "lib"))
        self.assertEqual(folder, self.folder)
        peer = ["/usr/bin/python3", os.path.join(self.folder, "bench", "peers", "gpt_step_torch.py")]
        self.assertEqual(context.place_of(peer), ({}, None))
        self.assertTrue(gpu_run.went_well(context))
        self.assertEqual([line["how"] for line in context.launches], ["one instruction a firing", "no graphs", "graphs"])
        self.assertEqual(context.machine.card, _CARD)
        self.assertEqual({each.part for each in context.outcomes if each.state == gpu_parts.PASSED}, set(gpu_parts.PARTS))
        self.assertEqual([each["peer"] for each in context.peers], ["PyTorch eager"] * 2 + ["PyTorch compiled"] * 2)

    def test_a_library_that_is_missing_is_one_line_and_no_failure(self):
        context = self.run_parts(_Machine(), names=["conformance"])
        self.assertEqual(self.states(context, "facts"), {"cuda_info": "passed", "NCCL": "SKIPPED"})
        self.assertIn("facts  NCCL: SKIPPED: NCCL: no libnccl.so.2 where the loader looks; install NCCL 2", self.said)
        self.assertTrue(gpu_run.went_well(context))

    def test_a_long_output_is_kept_from_both_its_ends(self):
        lines = ["line %d" % number for number in range(10000)]
        context = self.run_parts(_Machine(cuda_rows_test=Ran(1, "\n".join(lines))), names=["conformance"])
        failure = next(each for each in context.failures if "cuda_rows_test" in each)
        self.assertIn("\nline 0\n", failure)
        self.assertTrue(failure.endswith("\nline 9999"))
        self.assertRegex(failure, r"\n\[\d{5,} characters left out\]\n")
        self.assertLess(len(failure), 25000)

    def test_a_part_that_fails_does_not_stop_the_others(self):
        machine = _Machine(cuda_rows_test=Ran(1, "[  FAILED  ] CudaRowsTest.Ids (3 ms)\n"), gpu_step=Ran(0, "{broken"))
        context = self.run_parts(machine)
        self.assertEqual(self.states(context, "conformance")["cuda_rows_test"], "FAILED")
        self.assertEqual(self.states(context, "conformance")["cuda_kernels_test"], "passed")
        self.assertEqual(self.states(context, "steps"), {"the part itself": "FAILED"})
        self.assertEqual(self.states(context, "kernels")["gpt_tiny bf16"], "passed")
        self.assertIn("CudaRowsTest.Ids", next(line for line in self.said if "cuda_rows_test: FAILED" in line))
        self.assertIn("cuda_rows_test\n[  FAILED  ] CudaRowsTest.Ids (3 ms)", "\n".join(context.failures))
        self.assertFalse(gpu_run.went_well(context))

    def test_a_test_that_runs_nothing_has_not_passed(self):
        context = self.run_parts(_Machine(cuda_rows_test=Ran(0, "[  PASSED  ] 0 tests.\n")), names=["conformance"])
        self.assertEqual(self.states(context, "conformance")["cuda_rows_test"], "FAILED")

    def test_without_a_card_nothing_is_run_and_that_is_no_success(self):
        machine = _Machine(nvidia_smi=Ran(127), cuda_info=Ran(1, "CUDA runtime 13.0\nno CUDA device: the driver says: no\n"))
        context = self.run_parts(machine)
        self.assertEqual(self.states(context, "facts"), {"nvidia-smi": "SKIPPED", "cuda_info": "FAILED"})
        self.assertEqual(self.states(context, "steps"), {"card": "SKIPPED"})
        self.assertFalse(gpu_run.went_well(context))
        self.assertFalse(any("gpu_step" in command[0] for command in machine.commands))

    def test_where_nothing_failed_but_no_card_was_found_that_is_no_success_either(self):
        self.assertFalse(gpu_run.went_well(gpu_parts.Context(folder="", out="", emulated=False)))

    def test_a_loss_that_does_not_fall_is_a_failure(self):
        context = self.run_parts(_Machine(gpu_step=Ran(0, _step("gpu_step", "gpt_tiny", "bf16", 2.0).replace("1.0,", "3.0,"))),
                                 names=["steps"])
        self.assertEqual(self.states(context, "steps")["gpt_tiny bf16"], "FAILED")
        self.assertIn("the loss did not fall: 2, then 3", self.said[-1])

    def test_a_fault_that_is_not_found_and_a_mistake_of_ours(self):
        def sanitizer(command):
            return Ran(86 if "--model=gpt_tiny" in command and "initcheck" in command else 0)

        states = self.states(self.run_parts(_Machine(sanitizer=sanitizer), names=["faults"]), "faults")
        self.assertEqual(states["shared_race"], "FAILED")
        self.assertEqual(states["gpt_tiny under initcheck"], "FAILED")
        self.assertEqual(states["gpt_tiny under memcheck"], "passed")
        self.assertEqual(states["none under racecheck"], "passed")

    def test_a_process_that_does_not_end_is_a_failure(self):
        context = self.run_parts(_Machine(gpu_kernels=Ran(0, "", "stuck", seconds=1000.0)), names=["kernels"])
        self.assertEqual(set(self.states(context, "kernels").values()), {"FAILED"})
        self.assertIn("no end after 60 s; stuck", self.said[-1])

    def test_no_part_takes_more_than_its_time_or_what_is_left_of_all(self):
        context = self.run_parts(_Machine(cuda_rows_test=Ran(0, "[  PASSED  ] 1 test.\n", seconds=95.0)), minutes=106.5 / 60)
        self.assertEqual(self.states(context, "conformance")["cuda_rows_test"], "passed")
        # The last 10 seconds are the report's.
        self.assertEqual(self.states(context, "steps"), {"gpt_tiny bf16": "passed", "gpt_tiny f32": "SKIPPED"})
        self.assertEqual(set(self.states(context, "eager").values()), {"SKIPPED"})
        self.assertTrue(any("no time was left; --parts=" in line for line in self.said))

    def test_pytorch_that_is_missing_or_trains_another_model(self):
        missing = self.run_parts(_Machine(find_torch=Ran(0, "torch 2.11 None False\n")), names=["eager"])
        self.assertEqual(self.states(missing, "eager"), {"PyTorch eager": "SKIPPED"})
        self.assertIn("torch 2.11 sees no GPU", self.said[-1])
        other = _Machine(gpt_step_torch=Ran(0, _step("gpt_step", "tiny", "bf16", 5.0, parameters=99)))
        context = self.run_parts(other, names=["steps", "eager"])
        self.assertEqual(self.states(context, "eager")["gpt_tiny bf16"], "FAILED")
        self.assertIn("another model, of 99 parameters; ours has 100", self.said[-1])
        self.assertEqual(context.peers, [])

    def test_kernels_that_ran_are_told_though_others_failed(self):
        context = self.run_parts(_Machine(gpu_kernels=Ran(1, _KERNELS, "gpu_kernels: 1 of 2 kernels failed")), names=["kernels"])
        self.assertEqual(set(self.states(context, "kernels").values()), {"FAILED"})
        self.assertIn("1 of 2 kernels failed", self.said[-1])
        self.assertIn("| gelu [8] -> [8] |", gpu_report.markdown(context, ReportTest.MANIFEST, []))

    def test_a_card_without_published_peaks_has_no_prediction(self):
        context = self.run_parts(_Machine(gpu_steps=Ran(1, "", "gpu_steps: --gpu: expected h100")), names=["steps"])
        self.assertEqual(self.states(context, "steps")["prediction"], "SKIPPED")
        self.assertEqual(self.states(context, "steps")["gpt_tiny bf16"], "passed")


class ReportTest(_Case):
    MANIFEST = {"revision": "abc", "cuda": "CUDA runtime 13.0", "packed": "today", "emulated": False}

    def test_says_how_many_times_as_fast_and_what_was_asked(self):
        context = self.run_parts(_Machine())
        gpu_report.write(self.out, context, self.MANIFEST, ["steps"])
        with open(os.path.join(self.out, "report.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("# Sluice on NVIDIA H100 80GB HBM3\n", text)
        # 2 ms ours, 1 predicted, 5 each of PyTorch's; 800 of 1,000 bytes.
        self.assertIn("| GPT_TINY, bf16 | 2.00 ms | 200 ns | 7 | 1.00 ms | 0.50 | 5.00 ms | 5.00 ms | 2.50 | 2.0 | 800 B | 0.80 | "
                      "0.8 |", text)
        self.assertIn("Of 1 kernels that memory binds and a step notices, 1 reach 0.85 of it", text)
        self.assertIn("| gelu [8] -> [8] | 4 | 0.500 | 200 ns | 180 ns | 0.90 | memory | 300 MB/s |", text)
        with open(os.path.join(self.out, "report.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["card"], _CARD)
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as file:
            self.assertEqual(file.read().count("<svg"), 4)

    def test_failures_stand_first_and_a_step_that_failed_has_no_time(self):
        context = self.run_parts(_Machine(gpu_step=Ran(1, "", "out of memory")))
        text = gpu_report.markdown(context, self.MANIFEST, [])
        checked = text.split("## What was checked")[1]
        self.assertLess(checked.index("FAILED"), checked.index("passed"))
        self.assertIn("| GPT, bf16 | not measured | 200 ns | 7 | 1.00 ms |", text)

    def test_without_a_card_it_says_that_nothing_was_measured(self):
        context = gpu_parts.Context(folder="", out="", emulated=False)
        self.assertIn("**No GPU ran a kernel here, so nothing was measured.**", gpu_report.markdown(context, self.MANIFEST, []))


class PackTest(_Case):

    def test_an_archive_that_is_too_large_is_an_error_and_not_left(self):
        os.makedirs(self.folder)
        with open(os.path.join(self.folder, "noise"), "wb") as file:
            file.write(os.urandom(1 << 16))
        archive = os.path.join(self.out, "a.tar.xz")
        with self.assertRaisesRegex(gpu_pack.Error, "would be of 0.1 MiB, and has to be smaller than 0.0"):
            gpu_pack.write_archive(self.folder, archive, most_bytes=1 << 10)
        self.assertFalse(os.path.exists(archive))

    def test_what_is_packed_is_what_is_unpacked(self):
        os.makedirs(os.path.join(self.folder, "bin"))
        with open(os.path.join(self.folder, "bin", "tool"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n")
        os.chmod(file.name, 0o755)
        with open(os.path.join(self.folder, "manifest.json"), "w", encoding="ascii") as file:
            file.write('{"revision": "abc"}')
        archive = os.path.join(self.out, "a.tar.xz")
        self.assertEqual(gpu_pack.write_archive(self.folder, archive), os.path.getsize(archive))
        folder, manifest = gpu_run.unpack(archive, os.path.join(self.out, "unpacked"))
        self.assertEqual(manifest, {"revision": "abc"})
        self.assertTrue(os.access(os.path.join(folder, "bin", "tool"), os.X_OK))

    def test_shared_libraries_go_along_but_those_of_every_machine(self):
        listed = """\tlinux-vdso.so.1 (0x00007ffc)
\tlibzstd.so.1 => /lib/x86_64-linux-gnu/libzstd.so.1 (0x00007f87)
\tlibstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f86)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f85)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f84)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f88)
"""
        self.assertEqual(gpu_pack.libraries_of(listed), {"/lib/x86_64-linux-gnu/libzstd.so.1"})
        with self.assertRaisesRegex(gpu_pack.Error, "libdnnl.so.2: the loader finds it nowhere"):
            gpu_pack.libraries_of("\tlibdnnl.so.2 => not found\n")

    def test_what_is_no_archive_is_said(self):
        broken = os.path.join(self.out, "broken")
        with open(broken, "w", encoding="ascii") as file:
            file.write("x" * 100)
        for given in (broken, os.path.join(self.out, "nowhere"), self.out):
            with self.assertRaisesRegex(gpu_pack.Error, "of ci/gpu pack"):
                gpu_run.unpack(given, os.path.join(self.out, "unpacked"))

    def test_every_script_that_is_taken_along_is_there(self):
        root = os.path.dirname(os.path.dirname(os.path.abspath(gpu_pack.__file__)))
        self.assertEqual([script for script in gpu_pack.SCRIPTS + gpu_pack.DATA if not os.path.exists(os.path.join(root, script))], [])

    def test_a_build_that_fails_is_an_error_with_its_last_lines(self):
        with self.assertRaisesRegex(gpu_pack.Error, "(?s)false.*|No such file"):
            gpu_pack.run_tool(["false"], ".")


class CommandTest(unittest.TestCase):

    def test_folders_of_records(self):
        self.assertEqual(gpu_command.record_name("2026-11-23", _CARD), "2026-11-23-h100-80gb-hbm3")
        self.assertEqual(gpu_command.record_name("2026-11-23", ""), "2026-11-23-no-card")

    def test_an_earlier_report_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "2026-11-23-h100")
            for expected in (name, name + "-2", name + "-3"):
                self.assertEqual(gpu_command.free_name(name), expected)
                os.mkdir(expected)

    def test_a_rehearsal_is_no_record(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            with open(os.path.join(folder, "manifest.json"), "w", encoding="ascii") as file:
                file.write('{"emulated": true}')
            self.assertEqual(gpu_command.main("", ["run", folder]), 1)
        self.assertEqual(said.getvalue(), "ci/gpu: --out: expected a folder, as what the emulation says is no record\n")

    def test_flags(self):
        options = gpu_command.arguments("", ["run", "a.tar.xz", "--parts=steps,facts", "--models=arcface"])
        self.assertEqual((options.parts, options.models), (["steps", "facts"], ["arcface"]))
        self.assertEqual(gpu_command.arguments("", ["--precisions=bf16"]).precisions, ["bf16"])
        for wrong in (["run"], ["--parts=speed"], ["--precisions=f64"], ["pack", "x"], ["--models="]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                gpu_command.arguments("", wrong)


class ProcessTest(unittest.TestCase):

    def test_ends_what_takes_too_long_with_its_children(self):
        ran = gpu_machine.run_process(["sh", "-c", "echo begun; sleep 100 & wait"], 0.5)
        self.assertIsNone(ran.status)
        self.assertEqual(ran.out, "begun\n")
        self.assertLess(ran.seconds, 20)

    def test_a_program_that_is_not_there(self):
        self.assertEqual(gpu_machine.run_process(["/nowhere/tool"], 1).status, 127)

    def test_tools_are_looked_for_in_toolkits(self):
        with tempfile.TemporaryDirectory() as home:
            os.makedirs(os.path.join(home, "bin"))
            tool = os.path.join(home, "bin", "compute-sanitizer")
            with open(tool, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n")
            os.chmod(tool, 0o755)
            self.assertEqual(gpu_machine.find_tool("compute-sanitizer", {"CUDA_HOME": home, "PATH": "/nowhere"}), tool)
            self.assertEqual(gpu_machine.find_tool("no-such-tool", {"CUDA_HOME": home, "PATH": "/nowhere"}), "")


if __name__ == "__main__":
    unittest.main()
