import unittest

from ci import check_docs

_SOURCES = {"a/op.cc": "#define X\nconst OpDef& SoftmaxOp() {\n  return op;\n}\nABSL_FLAG(bool, zero_x);\nstruct OpDef { int reference; };\n"}
_FILES = ["a/op.cc", "docs/page.md"]


class CheckDocsTest(unittest.TestCase):

    def errors(self, text):
        return check_docs.check({"docs/page.md": text}, _SOURCES, _FILES)

    def test_what_exists(self):
        self.assertEqual(self.errors("`OpDef::reference`, `SoftmaxOp()`, `--zero_x=1`, `a/op.cc`, `op.cc`, `std::vector`, `x y`"), [])
        self.assertEqual(self.errors("`bazel test //x --test_arg=1`, `--mesh` in `absl::Status`")[1:], [])

    def test_what_does_not_is_named_with_its_line(self):
        self.assertEqual(self.errors("one\n`OpDef::define`"), ["docs/page.md:2: no source has OpDef::define"])
        self.assertEqual(self.errors("`GeluOp`"), ["docs/page.md:1: no source has GeluOp"])
        self.assertEqual(self.errors("`--zero_y`"), ["docs/page.md:1: no program has a flag --zero_y"])
        self.assertEqual(self.errors("`bazel run //x -- --zero_y`"), ["docs/page.md:1: no program has a flag --zero_y"])
        self.assertEqual(self.errors("`b/op.cc`"), ["docs/page.md:1: no file of the project is b/op.cc"])

    def test_quotations(self):
        quoted = "text:\n\n        const OpDef& SoftmaxOp() {\n          return op;\n        }\n\nmore"
        self.assertEqual(self.errors(quoted), [])
        self.assertEqual(self.errors(quoted.replace("return op", "return op2")),
                         ["docs/page.md:3: no source has this definition as it is quoted"])


if __name__ == "__main__":
    unittest.main()
