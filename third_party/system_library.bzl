"""Wraps installed Debian packages as Bazel repositories.

Headers are linked into the repository, so Bazel digests them and an `apt upgrade` rebuilds what it must;
libraries are linked by name. Where a package is absent, the build of a target that needs it stops with the
one command that installs it.
"""

_INCLUDE_DIRECTORIES = ["/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu"]
_LIBRARY_DIRECTORIES = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]

def _first(rctx, directories, name):
    for directory in directories:
        path = rctx.path(directory + "/" + name)
        if path.exists:
            return path
    return None

def _missing(rctx, missing):
    fail("\n\n  @%s: no %s here.\n  Run:  sudo apt-get install -y %s\n" %
         (rctx.name, ", ".join(missing), " ".join(rctx.attr.packages)))

def _link_headers(rctx):
    missing = []
    for name in rctx.attr.headers:
        path = _first(rctx, _INCLUDE_DIRECTORIES, name)
        if path == None:
            missing.append("<%s>" % name)
        else:
            rctx.symlink(path, "include/" + name)
    for name in rctx.attr.programs:
        path = rctx.which(name)
        if path == None:
            missing.append(name)
        else:
            rctx.symlink(path, "bin/" + name)
    if missing:
        _missing(rctx, missing)

def _system_library_impl(rctx):
    _link_headers(rctx)
    rctx.symlink(rctx.attr.build_file, "BUILD.bazel")

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "headers": attr.string_list(doc = "headers, or directories of them, below /usr/include"),
        "packages": attr.string_list(mandatory = True, doc = "Debian packages"),
        "programs": attr.string_list(doc = "executables found on PATH"),
    },
    configure = True,
    local = True,
)

def _system_abseil_impl(rctx):
    _link_headers(rctx)
    directory = _first(rctx, _LIBRARY_DIRECTORIES, "libabsl_base.so")
    if directory == None:
        _missing(rctx, ["libabsl_base.so"])

    # Which libraries there are differs from one Abseil release to the next, so the directory is asked.
    names = sorted([
        entry.basename[len("lib"):-len(".so")]
        for entry in directory.dirname.readdir()
        if entry.basename.startswith("libabsl_") and entry.basename.endswith(".so")
    ])
    rctx.file("BUILD.bazel", """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "absl",
    hdrs = glob(["include/absl/**/*.h", "include/absl/**/*.inc"]),
    includes = ["include"],
    linkopts = ["-Wl,--push-state,--as-needed"] + ["-l" + name for name in %s] + ["-Wl,--pop-state"],
)
""" % repr(names))
    for package, targets in rctx.attr.targets.items():
        lines = ['package(default_visibility = ["//visibility:public"])']
        lines += ['alias(name = "%s", actual = "//:absl")' % target for target in targets]
        rctx.file("absl/%s/BUILD.bazel" % package, "\n".join(lines) + "\n")

# Abseil under its upstream labels. They all name one library: --as-needed drops what a binary does not use,
# so no closure of targets has to be kept in step with the package.
system_abseil = repository_rule(
    implementation = _system_abseil_impl,
    attrs = {
        "headers": attr.string_list(default = ["absl"]),
        "packages": attr.string_list(mandatory = True),
        "programs": attr.string_list(),
        "targets": attr.string_list_dict(mandatory = True, doc = "package below absl/ -> its targets"),
    },
    configure = True,
    local = True,
)
