import unittest

from ci import cuda_kernels

# What tools/compile_cuda.sh has kept of a file with a template, used twice, and a kernel that needs a stack and calls a function.
_REPORT = "ci/testdata/three_kernels.ptxas.txt"
_MOVED = {"Deep": ["relu, f32[2,3]", "48", "48", "6", "0.12", "memory"],
          "Scale": ["scale, f32[8]", "64", "80", "8", "0.10", "arithmetic"]}


def _named(report):
    return [each._replace(name="".join(name for name in ("Scale", "Deep") if name in each.name))
            for each in cuda_kernels.parse(report)]


class CudaKernelsTest(unittest.TestCase):

    def setUp(self):
        with open(_REPORT, encoding="utf-8") as file:
            self.report = file.read()

    def test_reads_what_the_compiler_says(self):
        self.assertEqual(sorted(_named(self.report)), [
            ("Deep", "sm_80", 64, 205, 0, 800), ("Deep", "sm_90", 64, 205, 0, 800),
            ("Scale", "sm_80", 128, 14, 1024, 0), ("Scale", "sm_80", 256, 10, 1024, 0),
            ("Scale", "sm_90", 128, 14, 1024, 0), ("Scale", "sm_90", 256, 10, 1024, 0)])

    def test_spills_are_local_memory(self):
        spilled = self.report.replace("    800 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
                                      "    800 bytes stack frame, 16 bytes spill stores, 8 bytes spill loads")
        self.assertEqual({each.local for each in cuda_kernels.parse(spilled)}, {0, 824})

    def test_a_kernel_without_bounds_is_named(self):
        unbounded = self.report.replace("maxntid 64, 1, 1\n", "")
        with self.assertRaisesRegex(ValueError, "no __launch_bounds__: .*Deep$"):
            cuda_kernels.parse(unbounded)

    def test_threads_are_the_product_of_three_sizes(self):
        flat = self.report.replace("maxntid 64, 1, 1", "maxntid 32, 4, 2")
        self.assertEqual({each.threads for each in _named(flat) if each.name == "Deep"}, {256})

    # Each value as cuda_occupancy.h of CUDA 13.0 gives it, which agreed on 15,744 of 15,744 combinations.
    def test_warps_of_a_multiprocessor(self):
        for architecture, threads, registers, shared, expected in [
                ("sm_80", 256, 32, 0, 64), ("sm_80", 256, 33, 0, 48), ("sm_80", 1024, 64, 0, 32), ("sm_80", 1024, 66, 0, 0),
                ("sm_80", 32, 16, 0, 32),  # by blocks
                ("sm_80", 96, 31, 100, 63), ("sm_80", 128, 255, 0, 8),
                ("sm_80", 256, 24, 33000, 32), ("sm_90", 256, 24, 33000, 48)]:  # by shared memory
            self.assertEqual(cuda_kernels.warps(architecture, threads, registers, shared), expected,
                             (architecture, threads, registers, shared))

    def test_names_lose_their_types_and_places(self):
        for long, short in [("sluice::cuda::(anonymous namespace)::Softmax", "Softmax"),
                            ("void sluice::cuda::(anonymous namespace)::Rows<std::pair<float, int>, 4>", "Rows"),
                            ("void Plain<bool, (sluice::Kind)1>", "Plain")]:
            self.assertEqual(cuda_kernels.short_name(long), short)

    def test_a_row_spans_the_instances_of_a_kernel(self):
        rows = cuda_kernels.table({"a.cu.cc": _named(self.report)}, _MOVED)
        self.assertEqual(rows[2:], [
            "| **a.cu.cc** | | | | | | | | | | | | | | |",
            "| `Deep` | 1 | 64 | 205 | 205 | 0 | 800 | 8 | 8 | relu, f32[2,3] | 48 | 48 | 6 | 0.12 | memory |",
            "| `Scale` | 2 | 128 to 256 | 10 to 14 | 10 to 14 | 1024 | 0 | 64 | 64 "
            "| scale, f32[8] | 64 | 80 | 8 | 0.10 | arithmetic |"])

    def test_kernels_of_tests_move_nothing_in_a_step(self):
        rows = cuda_kernels.table({"framework/testing/a.cu.cc": _named(self.report)}, _MOVED)
        self.assertEqual(rows[3], "| `Deep` | 1 | 64 | 205 | 205 | 0 | 800 | 8 | 8 |  |  |  |  |  |  |")

    def test_what_kernels_move_is_read_by_name(self):
        printed = ("| kernel | of, largest operand |\n|---|---|\n"
                   "| `Deep` | relu, f32[2,3] | 48 | 48 | 6 | 0.12 | memory |\n"
                   "| `Scale` | scale, f32[8] | 64 | 80 | 8 | 0.10 | arithmetic |\n")
        self.assertEqual(cuda_kernels.bounds(printed), _MOVED)

    def test_a_kernel_without_a_line_and_a_line_without_a_kernel_are_named(self):
        sources = {"a.cu.cc": ["Deep", "Scale", "Scale"], "framework/testing/b.cu.cc": ["Wrong"]}
        self.assertEqual(cuda_kernels.unmatched(sources, _MOVED), [])
        self.assertRegex("\n".join(cuda_kernels.unmatched(sources, {"Deep": _MOVED["Deep"]})),
                         "^a.cu.cc Scale: has no line in bench/predicted/kernels.md, [^\n]*$")
        self.assertEqual(cuda_kernels.unmatched({"a.cu.cc": ["Deep"]}, _MOVED),
                         ["bench/predicted/kernels.md: `Scale`: there is no such kernel"])
        self.assertEqual(cuda_kernels.unmatched(dict(sources, **{"c.cu.cc": ["Deep"]}), _MOVED), [
            "a.cu.cc Deep: expected a name that no other kernel has",
            "c.cu.cc Deep: expected a name that no other kernel has"])

    # Without a compiler, too: each kernel of the document has in it what is predicted, and no others are.
    def test_the_document_has_what_is_predicted(self):
        with open(cuda_kernels.DOCUMENT, encoding="utf-8") as file:
            there = cuda_kernels.rows(file.read())
        with open(cuda_kernels.BOUNDS, encoding="utf-8") as file:
            moved = cuda_kernels.bounds(file.read())
        self.assertGreater(len(there), 100)
        sources = {}
        for source, name in there:
            sources.setdefault(source, []).append(name)
        self.assertEqual(cuda_kernels.unmatched(sources, moved), [])
        self.assertEqual({name: cells[-len(moved[name]):] for (_, name), cells in there.items() if name in moved}, moved)

    def test_only_what_stands_between_the_marks_is_replaced(self):
        document = "before\n" + cuda_kernels._BEGIN + "old\n" + cuda_kernels._END + "after\n"
        self.assertEqual(cuda_kernels.replace(document, ["new"]), document.replace("old", "new"))
        with self.assertRaisesRegex(ValueError, "docs/cuda_kernels.md has lost the marks"):
            cuda_kernels.replace("before\nafter\n", ["new"])

    def test_differences_name_kernel_and_both_rows(self):
        rows = cuda_kernels.table({"a.cu.cc": _named(self.report)}, _MOVED)
        there = "\n".join(rows)
        self.assertEqual(cuda_kernels.differences(there, there), [])
        beside = " | 1024 | 0 | 64 | 64 | scale, f32[8] | 64 | 80 | 8 | 0.10 | arithmetic"
        self.assertEqual(cuda_kernels.differences(there, there.replace("10 to 14 | 10 to 14", "10 to 14 | 10 to 15")), [
            "a.cu.cc Scale: the table has 2 | 128 to 256 | 10 to 14 | 10 to 14" + beside +
            ", expected was 2 | 128 to 256 | 10 to 14 | 10 to 15" + beside])
        fewer = "\n".join(row for row in rows if "Deep" not in row)
        self.assertEqual(cuda_kernels.differences(fewer, there), ["a.cu.cc Deep: not in the table"])
        self.assertEqual(cuda_kernels.differences(there, fewer),
                         ["a.cu.cc Deep: in the table, but there is no such kernel"])


if __name__ == "__main__":
    unittest.main()
