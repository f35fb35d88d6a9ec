"""Targets that every model has: layouts that train beside one device, and the run that another framework repeats."""

load("//tools:sluice.bzl", "sluice_cc_binary", "sluice_cc_library", "sluice_cc_test", "sluice_cc_tests")

def sluice_parity_tests(tests, deps = ["//framework/testing:rank_parity"]):
    """Of parity_test.cc, for the package's :parity: every layout against one device.

    `tests`: the filter of each target's tests by its name, a target for each way of training.
    """
    sluice_cc_tests(
        name = "parity_tests",
        size = "large",
        srcs = ["parity_test.cc"],
        tests = tests,
        deps = [
            ":parity",
            "//framework/testing:expect_parity",
            "//framework/testing:layouts",
        ] + deps,
    )

def sluice_cuda_tests(tests):
    """Of cuda_test.cc, for the package's :parity: layouts on CUDA devices, by default on the emulation.

    `tests`: the filter of each target's tests by its name; those named *_slow_test are tagged slow.
    """
    sluice_cc_tests(
        name = "cuda_tests",
        size = "large",
        srcs = ["cuda_test.cc"],
        shard_count = 4,
        tags = [
            "cuda_emulated",
            "noasan",
            "notsan",
            "noubsan",
        ],
        tests = tests,
        deps = [
            ":parity",
            "//framework/base",
            "//framework/kernels/cuda",
            "//framework/testing:cuda_order",
            "//framework/testing:cuda_parity",
            "//framework/testing:layouts",
        ],
    )

def sluice_reference_run_test(name, srcs, hdrs, main, deps, data = [], test_deps = []):
    """The test, and :reference_run, which writes what the model's script in bench/peers reads.

    The test compares with testdata/reference_run.json, which that script has written. `srcs` and `hdrs` describe the
    run, `deps` are theirs, `data` is what the run reads; `main` is the file of the program.
    """
    sluice_cc_library(
        name = "reference_run_case",
        testonly = True,
        srcs = srcs,
        hdrs = hdrs,
        deps = deps + [
            "//framework/testing:reference_run",
            "@com_google_absl//absl/strings",
        ],
    )
    sluice_cc_binary(
        name = "reference_run",
        testonly = True,
        srcs = [main],
        data = data,
        deps = [
            ":reference_run_case",
            "//framework/testing:reference_run_main",
        ],
    )
    sluice_cc_test(
        name = name,
        srcs = [name + ".cc"],
        data = data + ["testdata/reference_run.json"],
        deps = [
            ":reference_run_case",
            "//framework/testing:expect_reference_run",
        ] + test_deps,
    )
