import unittest

from ci import size_report

_SOURCE = """namespace sluice {
namespace {

const int kTable[] = {
    1,
    2,
};

int Short() { return 1; }

absl::Status Long(int a,
                  int b) {
  if (a) {
    return x;
  }
  return b;
}

Actor::Actor(int a)
    : a_(a),
      b_(a) {
  c();
}

__global__ void __launch_bounds__(256)
    Kernel(const float* x) {
  one();
  two();
  three();
}

void After() {
  one();
}

struct Config {
  int field;
  void Method() {
    one();
    two();
    three();
  }
};

}  // namespace
}  // namespace sluice
"""


class SizeReportTest(unittest.TestCase):

    def test_finds_functions_by_their_whole_length(self):
        self.assertEqual(size_report.long_functions("a.cc", _SOURCE, 4),
                         [(11, 7, "absl::Status Long(int a,"), (19, 5, "Actor::Actor(int a)"),
                          (25, 6, "__global__ void __launch_bounds__(256)"),
                          (38, 5, "void Method() {")])
        self.assertEqual(size_report.long_functions("a.cc", _SOURCE, 7), [])

    def test_python_functions(self):
        text = "def f(a,\n      b):\n    x\n\n    y\n\n\nclass C:\n    def g(self):\n        z\n"
        self.assertEqual(size_report.long_functions("a.py", text, 4), [(1, 5, "def f(a,")])

    def test_report_lists_what_is_too_long(self):
        files = {"p/a.cc": "x\n" * 601, "p/a_test.cc": "y\n" * 10,
                 "q/b.cc": "void F() {\n" + "  a();\n" * 70 + "}\n"}
        text = "\n".join(size_report.report(files))
        self.assertRegex(text, r"p +2 +601 +10\n")
        self.assertRegex(text, r"total +3 +673 +10\n")
        self.assertIn("files past 600 lines: 1\n    601  p/a.cc", text)
        self.assertIn("functions past 70 lines: 1\n     72  q/b.cc:1  void F() {", text)


if __name__ == "__main__":
    unittest.main()
