import os
import tempfile
import unittest
from unittest import mock

from ci import mutants

_TEXT = """int64_t First(int64_t n) {
  for (int64_t i = 0; i < n; ++i) Add(i);
  Sort(&items);
  Sort(&items);
  return absl::InvalidArgumentError("a < b");
}
"""


class MutantsTest(unittest.TestCase):

    def test_faults_are_of_what_computes(self):
        faults = mutants.faults_of("framework/plan/x.cc", _TEXT)
        self.assertIn(("operator", "for (int64_t i = 0; i <= n; ++i) Add(i);"),
                      [(fault.kind, fault.after.strip()) for fault in faults])
        self.assertEqual([fault.occurrence for fault in faults if fault.before == "  Sort(&items);"], [0, 1])
        self.assertFalse([fault for fault in faults if "Error" in fault.before])

    def test_a_fault_reads_back_and_changes_its_own_line_alone(self):
        for fault in mutants.faults_of("framework/plan/x.cc", _TEXT):
            again = mutants.Mutant.parse(fault.line())
            mutated = again.apply(_TEXT)
            changed = [(a, b) for a, b in zip(_TEXT.split("\n"), mutated.split("\n")) if a != b]
            self.assertEqual(changed, [(fault.before, fault.after)])
        second = mutants.Mutant("framework/plan/x.cc", 1, "call", "Sort(&items);", ";")
        self.assertEqual(second.apply(_TEXT).split("\n")[2:4], ["  Sort(&items);", "  ;"])
        self.assertIsNone(mutants.Mutant("framework/plan/x.cc", 2, "call", "Sort(&items);", ";").apply(_TEXT))

    def test_outcomes_are_kept_and_the_source_is_put_back(self):
        verdicts = {"<=": ("failed", ["//framework/plan:x_test"]), ";": ("build", []), "+": ("ok", [])}
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "framework", "plan")
            os.makedirs(folder)
            with open(os.path.join(folder, "x.cc"), "w", encoding="utf-8") as file:
                file.write(_TEXT)
            line = "for (int64_t i = 0; i < n; ++i) Add(i);"
            campaign = [mutants.Mutant("framework/plan/x.cc", 0, "operator", line, line.replace("<", "<=")),
                        mutants.Mutant("framework/plan/x.cc", 0, "call", line, ";"),
                        mutants.Mutant("framework/plan/x.cc", 0, "bound", line, line.replace("++i", "i++")),
                        mutants.Mutant("framework/plan/x.cc", 0, "call", "Gone();", ";")]
            ran = []

            def test(_, at, targets, jobs):
                text = mutants.read(at, "framework/plan/x.cc")
                ran.append(targets)
                return verdicts["<=" if "<=" in text else ";" if "i < n" not in text else "+"]

            with mock.patch.object(mutants, "bazel_test", test), mock.patch.object(mutants, "prepare_scratch"):
                for _ in range(2):
                    with open(os.devnull, "w", encoding="utf-8") as out:
                        self.assertEqual(mutants.run(campaign, "bazel", scratch, out=out),
                                         ["killed", "void", "survived", "stale"])
            # Without a fault each round, at first; then one, once more without warnings, and all for the survivor; nothing later.
            self.assertEqual(len(ran), len(mutants.TESTS["plan"]) + 1 + 2 + len(mutants.TESTS["plan"]))
            self.assertEqual(mutants.read(scratch, "framework/plan/x.cc"), _TEXT)

    def test_nothing_is_tried_on_tests_that_fail_by_themselves(self):
        fault = mutants.Mutant("framework/plan/x.cc", 0, "call", "Sort(&items);", ";")
        failing = lambda *_: ("failed", ["//framework/plan:x_test"])
        with tempfile.TemporaryDirectory() as scratch, mock.patch.object(mutants, "bazel_test", failing), \
                mock.patch.object(mutants, "prepare_scratch"):
            self.assertRaises(SystemExit, mutants.run, [fault], "bazel", scratch)

    def test_what_is_kept_stays_and_files_without_a_fault_come_first(self):
        paths = ["framework/%s/%s.cc" % (package, name) for package in mutants.TESTS for name in "abcdef"]
        kept = [mutants.Mutant("framework/sbp/%s.cc" % name, n, "call", "Sort(&items);", ";") for name in "bd" for n in (0, 1)]
        with mock.patch.object(mutants, "sources", lambda: paths), mock.patch.object(mutants, "read", lambda *_: _TEXT):
            drawn = [mutant for mutant in mutants.draw(1, 20, kept) if mutant.package == "sbp"]
            self.assertEqual([mutant.line() for mutant in drawn[:2]], [kept[0].line(), kept[2].line()])
            self.assertEqual(len({mutant.path for mutant in drawn}), 4)
            every = mutants.draw(2, 60, [])
        self.assertEqual(len({(mutant.path, mutant.occurrence, mutant.before) for mutant in every}), 60)



if __name__ == "__main__":
    unittest.main()
