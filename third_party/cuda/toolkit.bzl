"""@cuda_toolkit: the CUDA toolkit of this machine, for builds with --config=cuda; no other build looks for it.

Looked for in $CUDA_HOME, in $CUDA_PATH, around the nvcc on PATH, and in /usr/local/cuda; the first that has an nvcc is
taken. One line says which that is, its version, and what is missing; a target that needs what is missing stops with a line
that says so, and all others build.
"""

_MAJOR = 13
_CUDNN_MAJOR = 9
_NCCL_MAJOR = 2
_PLATFORM = "targets/x86_64-linux"

# Beside the toolkit, as NVIDIA's wheels lay it out, and where Debian packages of NVIDIA put headers.
_SYSTEM_INCLUDES = ["/usr/include", "/usr/include/x86_64-linux-gnu"]

# The toolkit's include directory holds the headers of all its libraries. Of cccl, 1,600 files, host code needs nv alone.
_RUNTIME_HEADERS = ["toolkit/*.h", "toolkit/*.hpp", "toolkit/crt/**", "toolkit/nv/**", "toolkit/cccl/nv/**"]
_NOT_RUNTIME = ["toolkit/%s*" % name for name in [
    "cublas",
    "cudnn",
    "cufft",
    "cupti",
    "curand",
    "cusolver",
    "cusparse",
    "nccl",
    "npp",
    "nvblas",
    "nvperf",
]]

def _find(rctx):
    """(the toolkit's directory or None, where it was looked for before)."""
    looked = []
    for variable in ["CUDA_HOME", "CUDA_PATH"]:
        place = rctx.os.environ.get(variable, "")
        if place and rctx.path(place + "/bin/nvcc").exists:
            return place, looked
        if place:
            looked.append("%s=%s (no bin/nvcc)" % (variable, place))
    nvcc = rctx.os.environ.get("SLUICE_NVCC", "")
    if nvcc and rctx.path(nvcc).exists:
        return str(rctx.path(nvcc).realpath.dirname.dirname), looked
    looked.append("PATH (no nvcc)" if not nvcc else nvcc + " (not there)")
    if rctx.path("/usr/local/cuda/bin/nvcc").exists:
        return str(rctx.path("/usr/local/cuda").realpath), looked
    looked.append("/usr/local/cuda (no bin/nvcc)")
    return None, looked

def _first_with(rctx, directories, name):
    for directory in directories:
        if rctx.path(directory + "/" + name).exists:
            return directory
    return None

def _macros(rctx, header, names):
    """The numbers that a header defines, in the order of `names`; "?" for one that it does not."""
    found = {}
    for line in rctx.read(header).split("\n"):
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if len(words) >= 3 and words[0] == "#define" and words[1] in names:
            found[words[1]] = words[2]
    return [found.get(name, "?") for name in names]

def _compiler_version(rctx, home):
    """Of "Cuda compilation tools, release 13.0, V13.0.88": "13.0.88"."""
    ran = rctx.execute([home + "/bin/nvcc", "--version"])
    if ran.return_code == 0 and "release" in ran.stdout:
        return ran.stdout.split("release")[1].split(", V")[-1].split("\n")[0].strip()
    return "of an unknown version"

def _library_header(rctx, name, directories, header, version_header, macros, major):
    """Links the headers of a library into `<name>/`. (version or None, what is missing or None)."""
    directory = _first_with(rctx, directories, header)
    if directory == None or not rctx.path(directory + "/" + version_header).exists:
        return None, "no %s %d (%s is in none of %s)" % (name, major, header, ", ".join(directories))
    version = _macros(rctx, directory + "/" + version_header, macros)
    if version[0] != str(major):
        return None, "no %s %d (%s/%s is of version %s)" % (name, major, directory, header, ".".join(version))
    stem = header[:-len(".h")]
    for entry in rctx.path(directory).readdir():
        if entry.basename.startswith(stem) or entry.basename == version_header:
            rctx.symlink(entry, "%s/%s" % (name, entry.basename))
    return ".".join(version), None

_MISSING = """\
cuda_missing(name = "{name}", message = {message})
"""

_COMPILER = """\
filegroup(name = "compiler", srcs = ["nvcc"])
"""

_RUNTIME = """\
cc_library(
    name = "runtime",
    srcs = ["libcudart_static.a"],
    hdrs = glob({headers}, exclude = {excluded}),
    includes = ["toolkit", "toolkit/cccl"],
    linkopts = ["-ldl", "-lpthread", "-lrt"],
)
"""

_LIBRARY = """\
cc_library(
    name = "{name}",
    hdrs = glob(["{directory}/**"]),
    includes = ["{directory}"],
    deps = [":runtime"],
)
"""

# Label, name for people and of the directory, header, header of the version, its macros, major version.
_LIBRARIES = [
    ("cublaslt", "cuBLASLt", "cublasLt.h", "cublas_api.h", ["CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH"], _MAJOR),
    ("cudnn", "cuDNN", "cudnn.h", "cudnn_version.h", ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"], _CUDNN_MAJOR),
    ("nccl", "NCCL", "nccl.h", "nccl.h", ["NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"], _NCCL_MAJOR),
]

def _no_toolkit(why):
    message = "--config=cuda: %s; docs/cuda.md says what is needed" % why
    labels = ["compiler", "runtime"] + [label for label, _, _, _, _, _ in _LIBRARIES]
    return [_MISSING.format(name = label, message = repr(message)) for label in labels], message

def _toolkit(rctx, home):
    """(rules of the BUILD file, the line for people)."""
    version = _compiler_version(rctx, home)
    what = "CUDA %s in %s" % (version, home)
    if version.split(".")[0] != str(_MAJOR):
        return _no_toolkit("found %s, needed is CUDA %d" % (what, _MAJOR))
    include = _first_with(rctx, [home + "/include", home + "/" + _PLATFORM + "/include"], "cuda_runtime.h")
    libraries = [home + "/lib64", home + "/" + _PLATFORM + "/lib", home + "/lib"]
    library = _first_with(rctx, libraries, "libcudart_static.a")
    if include == None or library == None:
        name = "cuda_runtime.h" if include == None else "libcudart_static.a"
        return _no_toolkit("%s has no %s" % (what, name))

    rctx.symlink(include, "toolkit")
    rctx.symlink(library + "/libcudart_static.a", "libcudart_static.a")

    # The version stands in the script, so that another compiler in the same place compiles everything anew.
    rctx.file("nvcc", "#!/bin/sh\n# %s\nexec '%s/bin/nvcc' \"$@\"\n" % (version, home), executable = True)
    rules = [_COMPILER, _RUNTIME.format(headers = repr(_RUNTIME_HEADERS), excluded = repr(_NOT_RUNTIME))]
    parts = []
    for label, name, header, version_header, macros, major in _LIBRARIES:
        directories = [include, "%s/%s/include" % (rctx.path(home).dirname, label)] + _SYSTEM_INCLUDES
        library_version, lacks = _library_header(rctx, name, directories, header, version_header, macros, major)
        if lacks:
            message = "--config=cuda: %s has %s; docs/cuda.md says what is needed" % (what, lacks)
            rules.append(_MISSING.format(name = label, message = repr(message)))
            parts.append("no %s %d" % (name, major))
        else:
            rules.append(_LIBRARY.format(name = label, directory = name))
            parts.append("%s %s" % (name, library_version))
    return rules, what + ": " + ", ".join(parts)

def _cuda_toolkit_impl(rctx):
    home, looked = _find(rctx)
    if home == None:
        rules, line = _no_toolkit("no CUDA toolkit in " + ", ".join(looked))
    else:
        rules, line = _toolkit(rctx, home)
        passed_over = [place for place in looked if "=" in place]
        if passed_over:
            line += "; passed over: " + ", ".join(passed_over)

    # buildifier: disable=print
    print(line)
    rctx.symlink(Label("//third_party/cuda:missing.bzl"), "missing.bzl")
    rctx.file("BUILD.bazel", "\n".join([
        'load("//:missing.bzl", "cuda_missing")',
        'package(default_visibility = ["//visibility:public"])',
    ] + rules))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    configure = True,
    # The PATH that rules see is the one of .bazelrc; tools/bazel looks for an nvcc on the caller's.
    environ = ["CUDA_HOME", "CUDA_PATH", "SLUICE_NVCC"],
    local = True,
)
