import unittest

from ci import check_layers

_ROWS = """
framework/base:      # nothing
framework/plan:      framework/base
framework/graph:     framework/base
framework/runtime:   framework/plan
framework/testing:   framework/runtime framework/graph
framework (tests):   =framework/testing
models:              =framework/graph
"""


class CheckLayersTest(unittest.TestCase):

    def errors(self, path, text):
        return check_layers.check(check_layers.Layers(_ROWS), {path: text})[0]

    def test_allowed_includes(self):
        text = '#include "framework/base/log.h"\n#include "framework/plan/plan.pb.h"\n#include "absl/x.h"\n'
        self.assertEqual(self.errors("framework/runtime/worker.cc", text), [])
        self.assertEqual(self.errors("framework/runtime/cpu/worker.cc", '#include "framework/runtime/bus.h"'), [])
        self.assertEqual(self.errors("models/gpt/train.cc", '#include "models/gpt/model.h"'), [])

    def test_forbidden_include_names_line_and_layers(self):
        self.assertEqual(
            self.errors("framework/runtime/worker.cc", '\n#include "framework/graph/graph.h"\n'),
            ["framework/runtime/worker.cc:2: framework/runtime may not use framework/graph"])
        self.assertEqual(len(self.errors("framework/plan/a.h", '# include "framework/runtime/worker.h"')), 1)

    def test_exact_row_gives_that_directory_alone(self):
        self.assertEqual(self.errors("models/gpt/model.h", '#include "framework/graph/graph.h"'), [])
        self.assertEqual(len(self.errors("models/gpt/model.h", '#include "framework/base/log.h"')), 1)

    def test_tests_may_use_more(self):
        text = '#include "framework/testing/golden.h"'
        self.assertEqual(self.errors("framework/plan/plan_test.cc", text), [])
        self.assertEqual(len(self.errors("framework/plan/plan.cc", text)), 1)
        self.assertEqual(len(self.errors("framework/plan/plan_test.cc", '#include "framework/runtime/x.h"')), 1)

    def test_libraries_for_tests_may_use_what_tests_may(self):
        build = 'sluice_cc_library(\n    name = "a",\n%s    srcs = ["a.cc"],\n    hdrs = ["a.h"],\n)\n'
        source = '#include "framework/testing/golden.h"'
        for line, wrong in (("    testonly = True,\n", 0), ("", 1)):
            files = {"framework/plan/BUILD.bazel": build % line, "framework/plan/a.cc": source}
            self.assertEqual(len(check_layers.check(check_layers.Layers(_ROWS), files)[0]), wrong)

    def test_build_files(self):
        text = 'deps = [\n  "//framework/plan",  # "//framework/graph"\n  "//framework/graph:graph",\n  "//tools:x"]'
        self.assertEqual(self.errors("framework/runtime/BUILD.bazel", text),
                         ["framework/runtime/BUILD.bazel:3: framework/runtime may not use framework/graph"])

    def test_uncovered_files_and_targets(self):
        self.assertEqual(len(self.errors("framework/attic/a.cc", "")), 1)
        self.assertEqual(len(self.errors("framework/plan/a.cc", '#include "framework/attic/a.h"')), 1)
        self.assertEqual(self.errors("ci/a.cc", '#include "framework/plan/a.h"'), [])

    def test_rows_may_only_name_rows_above(self):
        with self.assertRaisesRegex(ValueError, "layers.txt:1: b is no row above"):
            check_layers.Layers("a: b\nb:\n")
        with self.assertRaisesRegex(ValueError, "layers.txt:2"):
            check_layers.Layers("a:\na:\n")

    def test_heavy_libraries_stay_in_sources(self):
        files = {"framework/kernels/a.cc": '#include "oneapi/dnnl/dnnl.hpp"\n#include <nlohmann/json.hpp>\n',
                 "framework/kernels/a.h": '#include <string>\n#include "nlohmann/json.hpp"\n'}
        self.assertEqual(check_layers.check_heavy(files),
                         ["framework/kernels/a.h: nlohmann/json.hpp is for .cc files alone"])

    def test_a_wrapper_of_a_heavy_library_stays_in_sources(self):
        files = {"framework/kernels/cpu/onednn.h": "#include <dnnl.h>\n",
                 "framework/kernels/cpu/a.cc": '#include "framework/kernels/cpu/onednn.h"\n',
                 "framework/kernels/cpu/a.h": '#include "framework/kernels/cpu/onednn.h"\n'}
        self.assertEqual(check_layers.check_heavy(files),
                         ["framework/kernels/cpu/a.h: framework/kernels/cpu/onednn.h is for .cc files alone"])

    def test_messages_of_data_files_stay_in_sources(self):
        files = {"framework/data/a.cc": '#include "framework/data/a.pb.h"\n',
                 "framework/data/a.h": '#include "framework/data/a.pb.h"\n'}
        self.assertEqual(check_layers.check_heavy(files),
                         ["framework/data/a.h: framework/data/a.pb.h is for .cc files alone"])

    def test_nobody_reaches_the_plan_by_accident(self):
        files = {"framework/plan/index.h": '#include "framework/plan/plan.pb.h"\n',
                 "framework/session/session.h": '#include "framework/plan/index.h"\n',
                 "framework/train/trainer.cc": '#include "framework/session/session.h"\n',
                 "models/gpt/parity.h": '#include "framework/plan/index.h"\n',
                 "models/gpt/BUILD.bazel": 'cc_library(\n    testonly = True,\n    hdrs = ["parity.h"],\n)\n'}
        self.assertEqual(check_layers.check_heavy(files),
                         ["framework/train/trainer.cc: includes plan.pb.h, though it neither reads nor writes plans"])


if __name__ == "__main__":
    unittest.main()
