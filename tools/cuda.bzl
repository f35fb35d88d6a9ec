"""CUDA kernels: compiled by nvcc for GPUs with --config=cuda, else by the C++ compiler for the emulation on the CPU."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("//tools:sluice.bzl", "COPTS", "sluice_cc_library", "sluice_corpus")

# For target_compatible_with: what needs NVIDIA's toolkit, and what needs the emulation. `//...` leaves such a target out of the
# other build, with everything that depends on it.
CUDA_ONLY = select({
    "//tools:cuda": [],
    "//conditions:default": ["//tools:not_in_this_build"],
})
CUDA_EMULATED_ONLY = select({
    "//tools:cuda": ["//tools:not_in_this_build"],
    "//conditions:default": [],
})

# gcc calls a function for every access to memory and every suspicious sum; the emulation defines these functions, so no runtime
# of a sanitizer is linked. Under a sanitizer itself kernels are not checked, as no address can be watched by both.
EMULATION_COPTS = [
    "-O2",
    "-ffp-contract=off",  # the bits of the CPU's kernels are owed
] + select({
    "//tools:sanitizer": [],
    "//conditions:default": ["-fsanitize=thread,alignment,bounds,signed-integer-overflow"],
})

# Machine code for A100 and H100, and for later cards the portable form of the latter. a*b+c is two roundings, as on the CPU; what
# the registers cannot hold is an error, as it would go through memory.
_NVCC_FLAGS = [
    "-x",
    "cu",
    "-c",
    "-std=c++20",
    "-O3",
    "-DNDEBUG",
    "-fmad=false",
    "-lineinfo",
    "-gencode",
    "arch=compute_80,code=sm_80",
    "-gencode",
    "arch=compute_90,code=[sm_90,compute_90]",
    "-Werror",
    "all-warnings",
    "-Xptxas",
    "-v,-warn-spills,-warn-lmem-usage,-Werror",
    "-Xcompiler",
    ",".join(COPTS + ["-fPIC"]),
]

def _headers(files):
    return [file for file in files if file.extension == "h"]

def _compile(ctx, cc_toolchain, context, source):
    """(object, report): the report is what ptxas says of each kernel, and how many threads each was bounded to."""
    stem = source.basename[:-len(".cc")]
    object = ctx.actions.declare_file("_objs/%s/%s.pic.o" % (ctx.label.name, stem))
    report = ctx.actions.declare_file("%s.ptxas.txt" % stem)
    arguments = ctx.actions.args()
    arguments.add_all([report, ctx.file._compiler])
    arguments.add_all(_NVCC_FLAGS)
    arguments.add("-ccbin", cc_toolchain.compiler_executable)
    arguments.add_all(context.defines, format_each = "-D%s")
    arguments.add_all(depset(transitive = [context.quote_includes, context.includes]), before_each = "-I")  # it knows no -iquote
    arguments.add_all(context.system_includes, before_each = "-isystem")
    arguments.add("-o", object)
    arguments.add(source)
    ctx.actions.run(
        executable = ctx.executable._compile,
        arguments = [arguments],
        inputs = depset([source, ctx.file._compiler] + _headers(ctx.files.srcs), transitive = [context.headers]),
        outputs = [object, report],
        tools = [ctx.executable._compile],
        env = {"PATH": "/usr/bin:/bin"},
        mnemonic = "CudaCompile",
        progress_message = "Compiling for GPUs " + source.short_path,
    )
    return object, report

def _cuda_objects_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    own = CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset(ctx.files.hdrs)))
    merged = cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = merged.compilation_context
    compiled = [_compile(ctx, cc_toolchain, context, source) for source in ctx.files.srcs if source.extension != "h"]
    objects = depset([object for object, _ in compiled])
    linking_context, outputs = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(objects = objects, pic_objects = objects),
        linking_contexts = [merged.linking_context],
        disallow_dynamic_library = True,
    )
    library = outputs.library_to_link
    return [
        DefaultInfo(files = depset([library.pic_static_library or library.static_library] if library else [])),
        OutputGroupInfo(ptxas = depset([report for _, report in compiled])),
        CcInfo(compilation_context = context, linking_context = linking_context),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "srcs": attr.label_list(allow_files = [".cu.cc", ".h"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_compile": attr.label(default = "//tools:compile_cuda", cfg = "exec", executable = True),
        "_compiler": attr.label(default = "@cuda_toolkit//:compiler", allow_single_file = True),
    },
    fragments = ["cpp"],
    incompatible_use_toolchain_transition = True,
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def sluice_cuda_library(name, srcs, hdrs = [], deps = [], tags = [], **kwargs):
    """A library of kernels and of what launches them, in *.cu.cc. <cuda_runtime.h> comes by itself."""
    deps = deps + ["//third_party/cuda:runtime"]
    sluice_cc_library(
        name = name + "_emulated",
        srcs = srcs,
        hdrs = hdrs,
        copts = EMULATION_COPTS,
        tags = tags + ["manual"],
        deps = deps,
        **kwargs
    )
    _cuda_objects(
        name = name + "_nvcc",
        srcs = srcs,
        hdrs = hdrs,
        tags = tags + ["manual"],
        deps = deps,
        **kwargs
    )
    native.alias(
        name = name,
        actual = select({
            "//tools:cuda": ":%s_nvcc" % name,
            "//conditions:default": ":%s_emulated" % name,
        }),
        tags = tags,
        **kwargs
    )
    if native.package_name().endswith("/" + name):
        sluice_corpus()
