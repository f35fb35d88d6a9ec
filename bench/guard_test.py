import io
import json
import os
import tempfile
import unittest
from contextlib import redirect_stdout

from bench import guard
from bench.figures import Figure

_FAST, _SLOW = ("fast", [], None), ("slow", [], None)


def figure(name, share):
    return Figure(name, share * 100.0, "/s", limit=100.0)


class GuardTest(unittest.TestCase):

    def verdicts(self, recorded, measured):
        return {name: verdict for name, _, _, verdict in guard.compare(recorded, measured)}

    def test_a_fall_of_more_than_15_percent_is_found(self):
        recorded = {"a": 0.8, "b": 0.8, "c": 0.8, "d": 0.8}
        measured = {"a": 0.8, "b": 0.69, "c": 0.67, "d": 0.1}
        self.assertEqual(self.verdicts(recorded, measured), {"a": "ok", "b": "ok", "c": "fell", "d": "fell"})

    def test_what_is_gone_and_what_is_new(self):
        self.assertEqual(self.verdicts({"a": 0.5}, {"b": 0.5}), {"a": "gone", "b": "new"})

    def test_a_case_without_a_limit_is_not_compared(self):
        self.assertEqual(guard.shares_of([_FAST], lambda _: [Figure("a", 1.0, "ns"), figure("b", 0.5)]), {"b": 0.5})

    def test_what_fell_is_measured_again_and_nothing_else(self):
        ran = []

        def run(program):
            ran.append(program[0])
            return [figure(program[0], 0.5 if program[0] == "fast" or ran.count("slow") == 2 else 0.3)]

        best = guard.guard({"fast": 0.5, "slow": 0.5}, [_FAST, _SLOW], run, repeats=3)
        self.assertEqual(ran, ["fast", "slow", "slow"])
        self.assertEqual(best, {"fast": 0.5, "slow": 0.5})

    def test_what_stays_slow_is_not_excused_by_repeats(self):
        ran = []

        def run(program):
            ran.append(program[0])
            return [figure("a", 0.3)]

        best = guard.guard({"a": 0.5}, [_SLOW], run, repeats=2)
        self.assertEqual((len(ran), self.verdicts({"a": 0.5}, best)), (3, {"a": "fell"}))

    def test_a_program_that_runs_twice_with_other_flags(self):
        one, two = ("p", ["--threads=1"], None), ("p", ["--threads=2"], None)
        ran = []

        def run(program):
            ran.append(program[1][0])
            return [figure(program[1][0], 0.5 if program is one else 0.1)]

        guard.guard({"--threads=1": 0.5, "--threads=2": 0.5}, [one, two], run, repeats=1)
        self.assertEqual(ran, ["--threads=1", "--threads=2", "--threads=2"])

    def test_record_then_compare_then_slow_down(self):
        share = [0.6]
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "guard.json")

            def status(*flags):
                with redirect_stdout(io.StringIO()) as printed:
                    code = guard.main(["--table=" + table, *flags], [_FAST], lambda _: [figure("a", share[0])])
                return code, printed.getvalue()

            code, text = status()
            self.assertEqual(code, 2)
            self.assertIn("--record makes one", text)
            self.assertEqual(status("--record")[0], 0)
            with open(table, encoding="utf-8") as file:
                self.assertEqual(list(json.load(file).values()), [{"a": 0.6}])
            self.assertEqual(status()[0], 0)
            share[0] = 0.48
            code, text = status()
            self.assertEqual(code, 1)
            self.assertIn("fell", text)


if __name__ == "__main__":
    unittest.main()
