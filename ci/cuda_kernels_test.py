import unittest

from ci import cuda_kernels

# What tools/compile_cuda.sh has kept of a file with a template, used twice, and a kernel that needs a stack and calls a function.
_REPORT = "ci/testdata/three_kernels.ptxas.txt"


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
        rows = cuda_kernels.table({"a.cu.cc": _named(self.report)})
        self.assertEqual(rows[2:], [
            "| **a.cu.cc** | | | | | | | | |",
            "| `Deep` | 1 | 64 | 205 | 205 | 0 | 800 | 8 | 8 |",
            "| `Scale` | 2 | 128 to 256 | 10 to 14 | 10 to 14 | 1024 | 0 | 64 | 64 |"])

    def test_only_what_stands_between_the_marks_is_replaced(self):
        document = "before\n" + cuda_kernels._BEGIN + "old\n" + cuda_kernels._END + "after\n"
        self.assertEqual(cuda_kernels.replace(document, ["new"]), document.replace("old", "new"))
        with self.assertRaisesRegex(ValueError, "docs/cuda_kernels.md has lost the marks"):
            cuda_kernels.replace("before\nafter\n", ["new"])

    def test_differences_name_kernel_and_both_rows(self):
        rows = cuda_kernels.table({"a.cu.cc": _named(self.report)})
        there = "\n".join(rows)
        self.assertEqual(cuda_kernels.differences(there, there), [])
        self.assertEqual(cuda_kernels.differences(there, there.replace("10 to 14 | 10 to 14", "10 to 14 | 10 to 15")), [
            "a.cu.cc Scale: the table has 2 | 128 to 256 | 10 to 14 | 10 to 14 | 1024 | 0 | 64 | 64, "
            "the compiler says 2 | 128 to 256 | 10 to 14 | 10 to 15 | 1024 | 0 | 64 | 64"])
        fewer = "\n".join(row for row in rows if "Deep" not in row)
        self.assertEqual(cuda_kernels.differences(fewer, there), ["a.cu.cc Deep: not in the table"])
        self.assertEqual(cuda_kernels.differences(there, fewer),
                         ["a.cu.cc Deep: in the table, but there is no such kernel"])


if __name__ == "__main__":
    unittest.main()
