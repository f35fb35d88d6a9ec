"""The whole of ci/gpu run on the emulation, some models of it, so that neither programs nor parts rot until there is a GPU."""
import json
import os
import tempfile
import unittest

import gpu_pack
import gpu_parts
import gpu_run
import static_page

_MODELS = ["gpt_tiny", "wide_and_deep"]


def _packed(folder):
    """What gpu_pack lays out, of this test's runfiles."""
    os.makedirs(os.path.join(folder, "bin"))
    for name, label in gpu_pack.programs_of(emulated=True).items():
        built = os.path.abspath(gpu_pack.path_of(label))
        if os.path.exists(built):
            os.symlink(built, os.path.join(folder, "bin", name))
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump({"revision": "of a test", "cuda": "the emulation on a CPU", "emulated": True, "packed": "now"}, file)
    return folder


class GpuEmulatedTest(unittest.TestCase):

    def test_all_parts_go_through_and_the_report_says_that_it_is_no_measurement(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "out")
            folder, manifest = gpu_run.unpack(_packed(os.path.join(scratch, "packed")), scratch)
            context = gpu_run.run(folder, manifest, out, list(gpu_parts.PARTS), 8, _MODELS)
            self.assertEqual([each for each in context.outcomes if each.state == gpu_parts.FAILED], [])
            passed = {each.part for each in context.outcomes if each.state == gpu_parts.PASSED}
            self.assertEqual(passed, set(gpu_parts.PARTS) - {"eager", "compiled"})
            self.assertTrue(gpu_run.went_well(context))
            found = [each.name for each in context.outcomes if each.part == "faults"]
            self.assertGreater(len(found), 10 + len(_MODELS))
            self.assertEqual(len(context.steps), 2 * len(_MODELS))
            self.assertEqual([(line["script_length"], line["cuda_graphs"]) for line in context.launches],
                             [(1, True), (0, False), (0, True)])
            self.assertEqual(sorted(os.listdir(out)),
                             ["log.txt", "report.html", "report.json", "report.md", "trace_gpt_tiny.json.gz"])
            with open(os.path.join(out, "report.md"), encoding="utf-8") as file:
                text = file.read()
            self.assertIn("# Sluice on the emulation of a GPU: a rehearsal and NO MEASUREMENT\n", text)
            self.assertIn("## Kernels of wide_and_deep, bf16", text)
            with open(os.path.join(out, "report.html"), encoding="utf-8") as file:
                self.assertIn("NO MEASUREMENT", file.read())
            wrong, looked_at = static_page.check_file(os.path.join(out, "report.html"))
            self.assertEqual(wrong, [])
            print("looked at: report.html of ci/gpu: well" if looked_at else "SKIPPED: the report in a browser: no chromium is on PATH")


if __name__ == "__main__":
    unittest.main()
