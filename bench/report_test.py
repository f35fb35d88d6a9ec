import argparse
import io
import json
import os
import stat
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from contextlib import redirect_stdout
from unittest import mock

from bench import charts, figures, groups, page, report, rooflines, runs, save_pause, step_lines, tables
from bench.report_testing import kernel_figures, step


def google(cases):
    return json.dumps({"context": {}, "benchmarks": cases})


def case(name, time, unit="ns", **counters):
    return dict({"name": name, "run_type": "iteration", "iterations": 7, "real_time": time, "cpu_time": 0,
                 "time_unit": unit, "repetitions": 1}, **counters)


# A program that gives one figure.
PRINT_A = """print('{"name": "a", "value": 1.0, "unit": "ns"}')\n"""


class FiguresTest(unittest.TestCase):

    def test_a_time_is_beside_its_limit_and_goal(self):
        figure, = figures.of_google_benchmark(google([
            case("runtime/awake/iterations:7/manual_time", 2.0, "us", limit=500.0, goal=400, label="cache line")]))
        self.assertEqual((figure.name, figure.value, figure.unit, figure.limit), ("runtime/awake", 2000.0, "ns", 500.0))
        self.assertEqual(figure.share, 0.25)
        self.assertEqual((figure.goal, figure.note), ("400 ns", "cache line"))

    def test_a_rate_is_better_the_larger(self):
        figure, = figures.of_google_benchmark(google([case("boxing/a", 1.0, figure=3e9, limit=4e9, goal=0.7)]))
        self.assertEqual((figure.value, figure.unit, figure.share, figure.goal), (3e9, "/s", 0.75, "0.70 of limit"))

    def test_aggregates_are_left_out_and_further_counters_kept(self):
        made = figures.of_google_benchmark(google([
            case("compile/a", 3.0, "ms", select=0.5), dict(case("compile/a_mean", 3.0), run_type="aggregate")]))
        self.assertEqual([f.name for f in made], ["compile/a"])
        self.assertEqual(made[0].parts, {"select": 0.5})
        self.assertIn("compile/a: select 0.5\n", tables.text_table(figures.rows_of([made], []), parts=True))

    def test_a_case_that_fails_is_an_error_with_its_name(self):
        with self.assertRaisesRegex(ValueError, "boxing/a: no such mesh"):
            figures.of_google_benchmark(google([case("boxing/a", 0, error_occurred=True,
                                                     error_message="no such mesh")]))

    def test_a_gpt_step_gives_time_with_its_limit_and_memory(self):
        time, memory, beyond = figures.of_step("noise\n" + step(limit_ms=50.0))
        self.assertEqual((time.name, time.value, time.limit), ("gpt/tiny/threads:2/step", 1e8, 5e7))
        self.assertEqual(time.share, 0.5)
        self.assertEqual((memory.name, memory.value, memory.unit), ("gpt/tiny/threads:2/memory", 1000, "B"))
        self.assertEqual((beyond.name, beyond.value), ("gpt/tiny/threads:2/memory_beyond_libraries", 600))
        on_mesh = figures.of_step(step(mesh="data=2"))
        self.assertEqual(on_mesh[0].name, "gpt/tiny/data:2/step")
        low = figures.of_step(step(benchmark="bert_step", size="bert_base", precision="bf16"))
        self.assertEqual(low[0].name, "bert/bert_base/threads:2/bf16/step")

    def test_a_step_that_does_not_train_is_an_error(self):
        for loss in ((5.5, 5.5), (5.5, 6.0), (5.5, float("nan"))):
            with self.assertRaisesRegex(ValueError, "the loss did not fall"):
                figures.of_step(step(loss=loss))

    def test_numbers_read_as_people_write_them(self):
        for value, unit, text in ((12.34, "ns", "12.3 ns"), (4.5e6, "ns", "4.50 ms"), (2.5e9, "/s", "2.50 G/s"),
                                  (4.1e8, "B", "410 MB"), (2.5e9, "B/s", "2.50 GB/s"),
                                  (16100, "tokens/s", "16.1k tokens/s"), (None, "B", "")):
            self.assertEqual(figures.text_of(value, unit), text)


class LaunchedTest(unittest.TestCase):

    def test_processes_are_ranks_of_the_launcher(self):
        setting = groups.Setting("programs", "peers", "python3", "", quick=True)
        for make, ranks in ((groups.net, ["2"]), (groups.all_reduce, ["2", "2", "4", "4"]), (groups.processes, ["2", "2"]),
                            (groups.null_ranks, ["16"])):
            commands = [contest.ours.command for contest in make(setting)]
            self.assertEqual([command[3] for command in commands], ranks)
            for command in commands:
                self.assertTrue(os.path.exists(command[1]), command[1])
                self.assertTrue(command[5].startswith("programs" + os.sep), command[5])

    def test_a_step_on_processes_is_beside_the_same_mesh_in_one(self):
        setting = groups.Setting("programs", "peers", "python3", "", quick=True)
        for contest in groups.processes(setting):
            self.assertEqual(contest.ours.command[6:], contest.peers[0].command[1:])
        self.assertEqual([figure.name for figure in contest.ours.read(step(mesh="data=2"))], ["gpt/tiny/data:2/step"])


class SavePauseTest(unittest.TestCase):

    def figure(self, behind):
        """Of steps of 100 ms, those behind a save of another length; the second save is at step 12."""
        options = argparse.Namespace(every=6, ranks=2)
        log = [json.dumps({"step": n, "tokens_per_second": 8 * 128 / (behind if n % 6 == 1 else 0.1)}) for n in range(1, 31)]
        return save_pause.figure_of(options, "log x\nsaving     5 times; steps waited 0.7 ms for each, 0.7 % of a step\n", log)

    def test_what_steps_wait_and_the_step_behind_is_longer_by_is_the_pause(self):
        figure = self.figure(0.104)
        self.assertAlmostEqual(figure["value"], 4.7e6)
        self.assertAlmostEqual(figure["limit"], 5e6)
        self.assertIn("4.70 % of a step of 100 ms", figure["note"])

    def test_a_step_that_is_shorter_takes_nothing_off(self):
        self.assertAlmostEqual(self.figure(0.09)["value"], 0.7e6)

    def test_a_trainer_that_says_nothing_of_saves_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "expected a line \"saving\""):
            save_pause.figure_of(argparse.Namespace(every=6, ranks=1), "log x\n", [])

    def test_the_report_runs_the_trainer_beside_its_programs(self):
        setting = groups.Setting("out/bench", "peers", "python3", "", quick=True)
        for contest in groups.saves(setting):
            self.assertTrue(os.path.exists(contest.ours.command[1]))
            self.assertIn("--trainer=" + os.path.join("out", "models", "gpt", "train"), contest.ours.command)


class RowsTest(unittest.TestCase):

    def test_ratios_above_one_say_that_ours_is_better(self):
        time = [[figures.Figure("a", 50.0, "ns")]], [("p", [[figures.Figure("a", 100.0, "ns")]], "")]
        rate = [[figures.Figure("a", 50.0, "/s")]], [("p", [[figures.Figure("a", 100.0, "/s")]], "")]
        self.assertEqual(figures.rows_of(*time)[0].ratio, 2.0)
        self.assertEqual(figures.rows_of(*rate)[0].ratio, 0.5)

    def test_what_took_turns_is_compared_by_pairs(self):
        ours = [[figures.Figure("a", value, "ns")] for value in (10.0, 100.0, 20.0)]
        theirs = [[figures.Figure("a", value, "ns")] for value in (30.0, 200.0, 20.0)]
        self.assertEqual(figures.rows_of(ours, [("p", theirs, "")])[0].ratio, 2.0)  # of the medians it would be 1.5
        self.assertEqual(figures.rows_of(ours, [("p", theirs[:2], "")])[0].ratio, 5.75)

    def test_medians_and_shares_are_of_whole_processes(self):
        processes = [[figures.Figure("a", value, "ns", limit=10.0)] for value in (20.0, 40.0, 1000.0)]
        row, = figures.rows_of(processes, [])
        self.assertEqual((row.ours, row.share), ([20.0, 40.0, 1000.0], 0.25))
        self.assertEqual(tables.cells_of(row)[1:3], ("40.0 ns", "20.0 ns - 1.00 us"))
        self.assertEqual(tables.cells_of(row)[4], "0.25")

    def test_no_share_is_above_one(self):
        row, = figures.rows_of([[figures.Figure("a", 10.0, "ns", limit=18.2)]], [])
        self.assertEqual(tables.cells_of(row)[4], "at least 1")

    def test_only_cases_that_a_peer_has_are_beside_it(self):
        ours = [[figures.Figure("a", 1.0, "ns"), figures.Figure("b", 1.0, "ns")]]
        rows = figures.rows_of(ours, [("p", [[figures.Figure("b", 2.0, "ns")]], "")])
        self.assertEqual([(row.name, row.peer) for row in rows], [("a", ""), ("b", "p")])

    def test_a_missing_peer_is_no_win(self):
        rows = figures.rows_of([figures.of_step(step())], [("p", [], "missing: p: pip install p")])
        self.assertEqual([row.ratio for row in rows], [None, None, None])
        self.assertIsNone(figures.best_peer_row(rows))
        self.assertIn("missing: p: pip install p", tables.text_table(rows))
        self.assertIn("nothing can be said", tables.goals_of_gpt(rows)[0])

    def test_a_peer_with_another_model_has_no_figure(self):
        rows = figures.rows_of([figures.of_step(step())],
                               [("p", [figures.of_step(step(median=300.0, parameters=8))], "")])
        self.assertEqual([row.ratio for row in rows], [None, None, None])
        self.assertIn("another model, of 8 parameters", rows[0].trouble)

    def test_units_must_be_the_same(self):
        with self.assertRaisesRegex(ValueError, "another unit"):
            figures.rows_of([[figures.Figure("a", 1.0, "ns")]], [("p", [[figures.Figure("a", 1.0, "/s")]], "")])

    def test_the_aim_of_a_step(self):
        def line(ours, theirs, limit_flops):
            own = figures.of_step(step(median=ours, limit_ms=1e12 / limit_flops))
            peers = [(str(t), [figures.of_step(step(median=t))], "") for t in theirs]
            return tables.goals_of_gpt(figures.rows_of([own], peers))[0]

        self.assertIn("1.80x the best peer (180.0), 0.10 of the matmul limit: reached",
                      line(100.0, (180.0, 400.0), 1e11))
        self.assertIn(": not reached", line(100.0, (150.0,), 1e11))  # 1.5x, and 0.1 of the limit
        self.assertIn(": reached", line(100.0, (150.0,), 1e10))  # all of the limit
        self.assertIn(": not reached", line(100.0, (115.0,), 1e10))  # under 1.2x whatever the limit

    def test_markdown_and_page_show_what_is_missing(self):
        rows = figures.rows_of([[figures.Figure("a<b", 2.0, "ns", limit=1.0, note="memory")]],
                               [("p", [[figures.Figure("a<b", 6.0, "ns")]], ""), ("q", [], "missing: q")])
        sections = [("g", groups.Group(None, "what"), rows)]
        text = tables.markdown("t", {"cpu": "some"}, "", [], sections, ["q: missing: q"])
        self.assertIn("| a<b | 2.00 ns |  | 1.00 ns (memory) | 0.50 | p | 6.00 ns |  | 3.00x |  |", text)
        self.assertIn("| q | missing: q |", text)
        made = page.html("t", {"cpu": "some"}, "not quiet", [], sections, [], [], [], ["q: missing: q"])
        words = [node.text for node in xml.fromstring(made).iter()]
        for expected in ("not quiet", "3.00x", "missing: q", "q: missing: q", "a<b"):
            self.assertIn(expected, words)

    def test_of_many_kernels_a_table_has_the_sums(self):
        rows = figures.rows_of([kernel_figures()], [])
        names = [row.name for row in tables.shown_rows(groups.GROUPS["ops"], rows)]
        self.assertEqual(names, ["ops/resnet50/threads:2/" + sum for sum in ("products of a step", "others of a step")])
        self.assertEqual(len(tables.shown_rows(groups.GROUPS["runtime"], rows)), 4)  # all but the limits


class PageTest(unittest.TestCase):

    def lines(self):
        own = figures.of_step(step(benchmark="resnet_step", size="resnet50", median=10.0, limit_ms=4.5,
                                   limit_convolution_flops=1e9))
        peers = [("PyTorch eager", [figures.of_step(step(benchmark="resnet_step", size="resnet50", median=30.0))], ""),
                 ("JAX", [], "missing: jax")]
        return step_lines.lines_of(figures.rows_of([own], peers), figures.rows_of([kernel_figures()], []),
                                   {"resnet/resnet50": ("ResNet-50", "resnet50")})

    def test_a_step_is_beside_products_and_all_kernels_at_their_limits(self):
        line, = self.lines()
        self.assertEqual(line.title, "ResNet-50, f32, 2 threads")
        self.assertEqual((line.ours, line.limit, line.kernels_limit), (1e7, 4.5e6, 5e6))
        self.assertEqual(line.best, ("PyTorch eager", 3.0))
        self.assertEqual(step_lines.cells_of(line), (
            "ResNet-50, f32, 2 threads", "10.0 ms", "100", "0.45", "0.50", "30.0 ms", "", "JAX: missing",
            "3.00x (PyTorch eager)", "1.00 kB", "1.00"))

    def test_another_precision_or_number_of_threads_has_other_kernels(self):
        kernels = figures.rows_of([kernel_figures()], [])
        for more in ({"precision": "bf16"}, {"threads": 1}):
            rows = figures.rows_of([figures.of_step(step(benchmark="resnet_step", size="resnet50", **more))], [])
            line, = step_lines.lines_of(rows, kernels, {"resnet/resnet50": ("ResNet-50", "resnet50")})
            self.assertIsNone(line.kernels_limit)

    def test_a_bar_is_as_long_as_its_value(self):
        drawn = xml.fromstring(charts.bars([("t", [("a", 10.0, "ten", "ours"), ("b", 40.0, "forty", "peer"),
                                                   ("c", None, "missing", "peer")], [(20.0, "half", "dashed")])]))
        widths = [float(node.get("width")) for node in drawn.findall(".//{*}rect")]
        self.assertEqual(len(widths), 2)
        self.assertAlmostEqual(widths[1] / widths[0], 4.0)
        mark, = drawn.findall(".//{*}line")
        self.assertAlmostEqual(float(mark.get("x1")), 170 + widths[1] / 2)

    def test_rooflines_have_every_kernel_within_the_picture(self):
        kernels = figures.rows_of([kernel_figures()], [])
        for draw, name in ((rooflines.arithmetic, "conv2d"), (rooflines.memory, "relu")):
            drawn = xml.fromstring(draw(kernels, {"resnet50": "m0"}, []))
            dot, = drawn.findall(".//{*}circle")
            self.assertIn(name, dot.find("{*}title").text)
            box = [float(number) for number in drawn.get("viewBox").split()]
            places = [(float(dot.get("cx")), float(dot.get("cy")))]
            for curve in drawn.findall(".//{*}polyline"):
                places += [tuple(map(float, place.split(","))) for place in curve.get("points").split()]
            for x, y in places:
                self.assertTrue(0 <= x <= box[2] and 0 <= y <= box[3], (x, y))

    def test_a_kernel_at_its_limit_is_on_the_line(self):
        fields = dict(times=1, flops=4e8, bytes=4e4, working_set=4e4)
        at_limit = figures.Figure("ops/tiny/threads:2/matmul a", 1e6, "ns", parts={**fields, "share of the step": 1.0})
        limit = figures.Figure("ops/tiny/threads:2/limit/matmul/f32", 4e11, "FLOP/s")
        drawn = xml.fromstring(rooflines.arithmetic(figures.rows_of([[at_limit, limit]], []), {"tiny": "m0"}, []))
        dot, = drawn.findall(".//{*}circle")
        heights = {place.split(",")[1] for curve in drawn.findall(".//{*}polyline")
                   for place in curve.get("points").split()}
        self.assertIn("%.1f" % float(dot.get("cy")), heights)

    def test_names_of_slopes_stand_apart(self):
        curves = [("slow", [(1e-3, 1e-2), (110.0, 1e3)], "limit"), ("fast", [(1e-3, 1.1e-2), (100.0, 1e3)], "limit"),
                  ("peak", [(1e-3, 1e3), (1e6, 1e3)], "limit")]
        drawn = xml.fromstring(charts.scatter([(1.0, 1.0, 0.5, "m0", "a"), (1e3, 1e3, 0.5, "m0", "b")], curves, "x", "y",
                                              []))
        fast, slow = [next(node for node in drawn.findall(".//{*}text") if node.text == name) for name in ("fast", "slow")]
        self.assertEqual((fast.get("text-anchor"), slow.get("text-anchor")), ("end", "start"))
        self.assertGreaterEqual(float(slow.get("y")) - float(fast.get("y")), 12)

    def test_the_page_needs_no_network(self):
        made = page.html("t", {}, "", self.lines(), [], figures.rows_of([kernel_figures()], []),
                         [("resnet50", "ResNet-50")], [("<svg></svg>", "log")], [])
        xml.fromstring(made)
        for word in ("<script", "src=", "href=", "@import", "url("):
            self.assertNotIn(word, made)

    def test_curves_are_of_logs_or_of_the_records(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log.jsonl")
            with open(log, "w", encoding="utf-8") as file:
                file.write('{"step":1,"loss":2.5}\n{"step":2,"loss":1.5}\n')
            troubles = []
            (svg, source), = report.curves_of(["bert"], {"bert": log}, troubles)
            self.assertEqual((source, troubles), (log, []))
            self.assertIn("<polyline", svg)
            self.assertEqual(report.curves_of(["bert"], {"bert": folder + "/none"}, troubles), [])
            self.assertIn("curve of BERT base: failed: %s/none: No such file" % folder, troubles[0])

    def test_models_and_groups_that_there_are_not_are_refused(self):
        self.assertEqual(report.arguments(["--models=bert,resnet"]).names, ["bert", "resnet", "ops"])
        self.assertEqual(report.arguments(["--models=all", "--skip=gpt"]).names[0], "bert")
        for wrong in (["--models=alexnet"], ["--only=gpt,steps"], ["--models=gpt", "--only=ops"], ["--logs=alexnet=a"]):
            with self.assertRaises(SystemExit), mock.patch("sys.stderr", io.StringIO()):
                report.arguments(wrong)


class RunsTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, script):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!%s\n%s\n" % (sys.executable, script))
        os.chmod(path, stat.S_IRWXU)
        return path

    def contestant(self, script, timeout=20, read=figures.of_lines):
        return runs.Contestant("it", [self.program("it", script)], read, timeout)

    def trouble_of(self, script, **more):
        contestant = self.contestant(script, **more)
        runs.run_process(contestant)
        self.assertEqual(contestant.processes, [])
        self.assertEqual(contestant.log[0]["outcome"], contestant.trouble)
        return contestant.trouble

    def test_a_failing_process_is_named_with_its_last_lines(self):
        trouble = self.trouble_of("import sys\nfor i in range(99): print('line', i, file=sys.stderr)\nsys.exit(4)")
        self.assertTrue(trouble.startswith("failed: status 4; line 93 |"), trouble)
        self.assertTrue(trouble.endswith("line 98"), trouble)

    def test_a_missing_peer_says_what_it_needs(self):
        self.assertEqual(self.trouble_of("print('missing: p: pip install p')\nraise SystemExit(3)"),
                         "missing: p: pip install p")

    def test_status_3_alone_is_a_failure(self):
        self.assertIn("failed: status 3", self.trouble_of("raise SystemExit(3)"))

    def test_a_process_that_does_not_end_is_killed_with_its_children(self):
        trouble = self.trouble_of("import subprocess, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)", timeout=1)
        self.assertIn("failed: no end after 1 s", trouble)

    def test_output_that_cannot_be_read_is_a_failure(self):
        self.assertIn("failed: ValueError: no figures", self.trouble_of("print('fine')"))
        self.assertIn("failed: JSONDecodeError", self.trouble_of("print('{oops')", read=figures.of_google_benchmark))

    def test_a_program_that_is_not_built(self):
        contestant = runs.Contestant("it", ["/nowhere/it"], figures.of_lines)
        runs.run_process(contestant)
        self.assertEqual(contestant.trouble, "failed: /nowhere/it is not built")

    def test_contestants_take_turns_and_trouble_is_not_repeated(self):
        log = os.path.join(self.folder.name, "log")
        script = ("import json\nopen(%r, 'a').write(%r)\n"
                  "print(json.dumps({'name': 'a', 'value': 1.0, 'unit': 'ns'}))")
        ours = runs.Contestant("ours", [self.program("ours", script % (log, "o"))], figures.of_lines)
        fine = runs.Contestant("fine", [self.program("fine", script % (log, "f"))], figures.of_lines)
        wrong = runs.Contestant("wrong", [self.program("wrong", "open(%r, 'a').write('w')\nraise SystemExit(1)" % log)],
                                figures.of_lines)
        contest = runs.Contest("c", ours, [fine, wrong], rounds=3)
        out = io.StringIO()
        runs.run_contest(contest, runs.Progress(runs.processes_of([contest]), out))
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), "ofwofof")
        self.assertIn("[  3/9", out.getvalue())
        rows, troubles = report.rows_of_contest(contest)
        self.assertEqual([(row.peer, row.ratio) for row in rows], [("fine", 1.0), ("wrong", None)])
        self.assertEqual(troubles, ["c: wrong: failed: status 1; "])

    def test_what_others_use_meanwhile_is_told(self):
        contestant = self.contestant("import time\ntime.sleep(0.2)\n" + PRINT_A)
        busy = iter([100.0, 101.0])
        with mock.patch.object(runs, "_busy_seconds", lambda: next(busy)):
            runs.run_process(contestant)
        self.assertGreater(contestant.log[0]["others_cores"], 1.0)  # a second of others in less than one
        contest = runs.Contest("c", contestant)
        self.assertEqual(runs.disturbance(contest), contestant.log[0]["others_cores"])
        row, = report.rows_of_contest(contest)[0]
        self.assertIn("cores", tables.cells_of(row)[-1])
        entry = dict(contestant.log[0], contest="c")
        self.assertRegex(report.warning_of([entry], 0.0), r"not quiet: during 1 of 1 processes .*\(c: it\)")
        entry["others_cores"] = contestant.log[0]["others_cores"] = 0.1
        self.assertEqual(runs.disturbance(contest), 0.0)
        self.assertEqual(report.warning_of([entry], 0.0), "")
        self.assertIn("just before", report.warning_of([entry], 3.0))

    def test_what_a_process_uses_itself_is_not_others(self):
        contestant = self.contestant("import time\nend = time.process_time() + 0.3\n"
                                     "while time.process_time() < end: pass\n" + PRINT_A)
        busy = iter([100.0, 100.3])
        with mock.patch.object(runs, "_busy_seconds", lambda: next(busy)):
            runs.run_process(contestant)
        self.assertLess(contestant.log[0]["others_cores"], 0.1)

    def test_the_whole_report_of_programs_that_are_not_there(self):
        out = os.path.join(self.folder.name, "out")
        with redirect_stdout(io.StringIO()) as printed:
            status = report.main(["--only=loader", "--programs=" + self.folder.name, "--out=" + out])
        self.assertEqual(status, 1)
        self.assertIn("failed", printed.getvalue())
        with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
            written = json.load(file)
        self.assertIn("cpu", written["machine"])
        self.assertIn("is not built", written["troubles"][0])
        self.assertTrue(os.path.exists(os.path.join(out, "report.md")))
        xml.parse(os.path.join(out, "report.html"))

    def test_a_run_that_is_stopped_leaves_what_it_has(self):
        out, run_contest = os.path.join(self.folder.name, "out"), runs.run_contest

        def stop_at_the_second(contest, progress):
            if contest.name == "compile":
                raise KeyboardInterrupt
            run_contest(contest, progress)

        with mock.patch.object(runs, "run_contest", stop_at_the_second), redirect_stdout(io.StringIO()):
            status = report.main(["--only=loader,compile", "--programs=" + self.folder.name, "--out=" + out])
        self.assertEqual(status, 1)
        with open(os.path.join(out, "report.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("stopped by hand after loader", text)
        self.assertIn("## loader", text)

    def test_an_interpreter_that_is_not_there_makes_a_missing_peer(self):
        for path in (self.folder.name + "/python3", "no_such_python", self.program("stub", "raise SystemExit(127)")):
            self.assertEqual(report.interpreter(path), "")
        self.assertEqual(report.interpreter(sys.executable), sys.executable)
        setting = groups.Setting("programs", "peers", sys.executable, "")
        peer, = groups.original(setting)[0].peers
        self.assertTrue(peer.trouble.startswith("missing: "), peer.trouble)

    def test_every_group_names_programs(self):
        for quick in (False, True):
            setting = groups.Setting("programs", "peers", "python3", "python3.10", quick=quick)
            for name, group in groups.GROUPS.items():
                self.assertTrue(group.what, name)
                for contest in group.contests(setting):
                    self.assertGreater(contest.rounds, 0)


if __name__ == "__main__":
    unittest.main()
