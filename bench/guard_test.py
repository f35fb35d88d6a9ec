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

    def test_a_case_without_a_limit_is_not_recorded(self):
        self.assertEqual(guard.record([_FAST], lambda _: [Figure("a", 1.0, "ns"), figure("b", 0.5)]), {"b": 0.5})

    def measured(self, shares):
        """Runs the guard on a program whose tries give these shares; what it says, and how many tries it took."""
        left = list(shares)
        medians = guard.guard({"a": 0.5}, [_SLOW], lambda _: [figure("a", left.pop(0))])
        return medians["a"], len(shares) - len(left)

    def test_two_tries_that_agree_decide(self):
        self.assertEqual(self.measured([0.5, 0.6]), (0.5, 2))
        self.assertEqual(self.measured([0.3, 0.2]), (0.2, 2))

    def test_what_is_in_doubt_is_the_median_of_three_as_what_is_recorded(self):
        for shares in ([0.5, 0.3, 0.6], [0.3, 0.5, 0.2], [0.5, 0.2, 0.3]):
            median = sorted(shares)[1]
            self.assertEqual(self.measured(shares), (median, 3))
            left = list(shares)
            self.assertEqual(guard.record([_SLOW], lambda _: [figure("a", left.pop(0))]), {"a": median})

    def test_one_lucky_try_neither_saves_nor_is_recorded(self):
        self.assertEqual(self.verdicts({"a": 0.5}, {"a": self.measured([0.9, 0.3, 0.3])[0]}), {"a": "fell"})
        left = [0.9, 0.5, 0.5]
        self.assertEqual(guard.record([_SLOW], lambda _: [figure("a", left.pop(0))]), {"a": 0.5})

    def test_a_program_in_doubt_runs_again_and_no_other(self):
        ran = []

        def run(program):
            ran.append(program[1][0])
            return [figure(program[1][0], 0.1 if len(ran) == 4 else 0.5)]

        one, two = ("p", ["--threads=1"], None), ("p", ["--threads=2"], None)
        guard.guard({"--threads=1": 0.5, "--threads=2": 0.5}, [one, two], run)
        self.assertEqual(ran, ["--threads=1"] * 2 + ["--threads=2"] * 3)

    def test_record_then_compare_then_slow_down(self):
        share = [0.6]
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "guard.json")

            def status(*flags):
                with redirect_stdout(io.StringIO()) as printed:
                    code = guard.main(["--table=" + table, *flags], [_FAST], lambda _: [figure("a", share[0])])
                return code, printed.getvalue()

            code, text = status()
            self.assertEqual(code, 0)
            self.assertIn("no record of", text)
            self.assertIn("--record", text)
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
