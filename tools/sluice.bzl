"""The rules that Sluice's packages are built with; the one place for compiler flags."""

# gcc 12 calls the unused bytes of an absl::InlinedVector uninitialized when it is copied, and thinks that a
# std::string assigned from a literal overlaps itself (gcc bug 105651); clang does not know the last two warnings.
COPTS = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-warning-option", "-Wno-uninitialized", "-Wno-maybe-uninitialized", "-Wno-restrict"]

# Of tests' own sources, a third of all that is compiled: gcc takes 0.8 to 0.95 of the time, and what they measure is in libraries.
TEST_OPTIMIZATION = ["-O1"]

def _test_flags(copts, deps):
    """(copts, deps) of a test's sources. Half of a short one's time is reading headers, which is done once for all of them.

    gcc would refuse what was read with other flags, so a test with flags of its own reads for itself.
    """
    if copts != []:
        return COPTS + TEST_OPTIMIZATION + copts, deps
    read = "precompiled_test_headers"
    return COPTS + TEST_OPTIMIZATION + ["@$(BINDIR)/tools/%s/flags" % read], deps + ["//tools:" + read]

def sluice_corpus():
    """The package's `filegroup` "corpus_files": its sources and docs, part of the text that //models/gpt learns."""
    native.filegroup(
        name = "corpus_files",
        srcs = native.glob(
            ["*.md", "*.h", "*.cc", "*.cu", "*.py", "*.sh", "*.bzl", "*.proto", "*.txt", "docs/**/*.md", "BUILD.bazel"],
            allow_empty = True,
        ),
    )

def sluice_cc_library(name, copts = [], **kwargs):
    """A library. The one that is named as its package also makes the package's corpus_files."""
    native.cc_library(
        name = name,
        copts = COPTS + copts,
        linkstatic = True,
        **kwargs
    )
    if native.package_name().endswith("/" + name):
        sluice_corpus()

def sluice_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(
        name = name,
        copts = COPTS + copts,
        **kwargs
    )

def sluice_cc_test(name, copts = [], size = "small", deps = [], data = [], **kwargs):
    """A test; googletest, its main and gmock come by themselves."""
    copts, deps = _test_flags(copts, deps)
    native.cc_test(
        name = name,
        copts = copts,
        size = size,
        deps = deps + ["@com_google_googletest//:gtest_main"],
        data = data + ["//tools:tsan.suppressions"],
        **kwargs
    )

def sluice_cc_tests(name, srcs, tests, deps = [], copts = [], size = "small", tags = [], target_compatible_with = [], **kwargs):
    """Several tests of the same sources, which are compiled once, as :name.

    `tests`: the googletest filter of each by its name; one that is named *_slow_test is tagged slow.
    """
    copts, deps = _test_flags(copts, deps)
    native.cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        copts = copts,
        linkstatic = True,
        tags = ["manual"],
        target_compatible_with = target_compatible_with,
        deps = deps + ["@com_google_googletest//:gtest"],
    )
    for test, filter in tests.items():
        slow = test.endswith("_slow_test")
        sluice_cc_test(
            name = test,
            size = "enormous" if slow else size,
            args = ["--gtest_filter=" + filter],
            tags = tags + (["slow"] if slow else []),
            target_compatible_with = target_compatible_with,
            deps = [":" + name],
            **kwargs
        )

def sluice_fuzz_test(name, srcs, deps, copts = [], tags = [], **kwargs):
    """A fuzz target, LLVMFuzzerTestOneInput, and its corpus testdata/fuzz/<name>/.

    Ordinarily a test that runs the corpus; with --config=fuzz a libFuzzer binary (ci/fuzz.sh runs them all).
    """
    corpus = "testdata/fuzz/" + name
    directory = native.package_name() + "/" + corpus
    native.cc_test(
        name = name,
        size = "small",
        srcs = srcs,
        args = select({
            "//tools:fuzzing": ["-runs=0", directory],
            "//conditions:default": [directory],
        }),
        copts = COPTS + copts,
        data = native.glob([corpus + "/**"]) + ["//tools:tsan.suppressions"],
        linkopts = select({
            "//tools:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = tags + ["fuzz"],
        deps = deps + select({
            "//tools:fuzzing": [],
            "//conditions:default": ["//tools:fuzz_main"],
        }),
        **kwargs
    )

def sluice_cc_benchmark(name, copts = [], deps = [], tags = [], **kwargs):
    """A Google Benchmark program; its main comes by itself. See bench/README.md for the counters that it should give."""
    native.cc_binary(
        name = name,
        testonly = True,
        copts = COPTS + copts,
        tags = tags + ["benchmark"],
        deps = deps + ["@com_google_benchmark//:benchmark_main"],
        **kwargs
    )

# Vector code is plain loops. Bits must not depend on the CPU, hence no contraction into fused multiply-adds
# and no reordering of sums; math-errno and trapping-math are off because they keep loops from being vectorised.
_VECTOR_COPTS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-ffp-contract=off"]

_LEVELS = {
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
    "v4_bf16": ["-march=x86-64-v4", "-mprefer-vector-width=512", "-mavx512bf16"],
}

def sluice_isa_library(name, src, hdrs = [], deps = [], levels = ["v3", "v4"], textual_hdrs = [], **kwargs):
    """Compiles one .cc once for each instruction-set level, with -DSLUICE_ISA=<level>.

    The file puts its functions into a namespace SLUICE_ISA; the caller chooses once, by __builtin_cpu_supports.
    It must include no header with inline functions, not even <vector>: the linker keeps one copy of a shared
    inline function, and if that is the AVX-512 one an older CPU dies in code that never meant to use it.
    """
    for level in levels:
        if level not in _LEVELS:
            fail("%s: no instruction-set level %s; there are %s" % (name, level, ", ".join(_LEVELS.keys())))
        native.cc_library(
            name = "%s_%s" % (name, level),
            srcs = [src] + hdrs,
            copts = COPTS + _VECTOR_COPTS + _LEVELS[level] + ["-DSLUICE_ISA=" + level],
            deps = deps,
            textual_hdrs = textual_hdrs,
            linkstatic = True,
            **kwargs
        )
    native.cc_library(
        name = name,
        hdrs = hdrs,
        deps = deps + [":%s_%s" % (name, level) for level in levels],
        linkstatic = True,
        **kwargs
    )
