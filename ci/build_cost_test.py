import unittest

from ci import build_cost


def _event(target, microseconds, category="action processing"):
    return {"cat": category, "name": "Compiling", "dur": microseconds, "args": {"target": target}}


class BuildCostTest(unittest.TestCase):

    def test_sums_actions_by_target(self):
        profile = {"traceEvents": [
            _event("//a:a", 1500000), _event("//a:a", 500000), _event("//b:b", 3000000), _event("", 9000000),
            _event("//b:b", 7000000, "general information"), {"name": "thread_name", "ph": "M"},
        ]}
        self.assertEqual(build_cost.action_seconds(profile), {"//a:a": (2, 2.0), "//b:b": (1, 3.0)})

    def test_table_counts_what_a_change_rebuilds(self):
        rows = build_cost.table({"//a:a": (2, 2.0), "//b:b": (1, 3.0)},
                                {"//a:a": ["//a:a", "//b:b", "//external"], "//b:b": ["//b:b"]})
        self.assertEqual(rows[2:], ["| `//b:b` | 1 | 3.0 | 3.0 |", "| `//a:a` | 2 | 2.0 | 5.0 |"])


if __name__ == "__main__":
    unittest.main()
