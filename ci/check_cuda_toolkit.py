"""Checks what a build with --config=cuda says of the toolkit that it finds, and of one that is not there or not whole.

  python3 ci/check_cuda_toolkit.py

Toolkits are made for it, folders with a compiler that says its version and what else a case has, so it needs none of NVIDIA's.
"""

import os
import subprocess
import sys
import tempfile

_COMPILER = """#!/bin/sh
echo "Cuda compilation tools, release {release}, V{version}"
"""
# What the toolkit has, beside its compiler.
_RUNTIME = ("include/cuda_runtime.h", "lib64/libcudart_static.a")
_CUBLAS = ("#define CUBLAS_VER_MAJOR 13\n#define CUBLAS_VER_MINOR 7\n#define CUBLAS_VER_PATCH 5\n")


def make_toolkit(folder, version, files=()):
    """A toolkit of that version with these files; names, or pairs of a name and a text."""
    contents = {"bin/nvcc": _COMPILER.format(release=version.rsplit(".", 1)[0], version=version)}
    contents.update((each, "") if isinstance(each, str) else each for each in files)
    for name, text in contents.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(os.path.join(folder, "bin/nvcc"), 0o755)
    return folder


def analyze(home, target):
    """(whether it can be built, what was said)."""
    result = subprocess.run(["./bazelw", "build", "--nobuild", "--config=cuda", "--color=no", "--curses=no", "--noshow_progress",
                             "--experimental_convenience_symlinks=ignore", "@cuda_toolkit//:" + target],
                            env=dict(os.environ, CUDA_HOME=home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    return result.returncode == 0, result.stdout


def _cases(folder):
    """(home, target, whether it can be built, what one line says)."""
    def at(name, *what):
        return make_toolkit(os.path.join(folder, name), *what)

    old, bare, part = at("old", "12.4.131"), at("bare", "13.0.88"), at("part", "13.9.7", _RUNTIME)
    whole = at("whole", "13.9.8", _RUNTIME + (("include/cublasLt.h", ""), ("include/cublas_api.h", _CUBLAS)))
    nowhere = os.path.join(folder, "nowhere")
    needed = "docs/cuda.md says what is needed"
    return [
        (old, "runtime", False, "--config=cuda: found CUDA 12.4.131 in %s, needed is CUDA 13; %s" % (old, needed)),
        (bare, "runtime", False, "--config=cuda: CUDA 13.0.88 in %s has no cuda_runtime.h; %s" % (bare, needed)),
        (part, "runtime", True, "CUDA 13.9.7 in %s: no cuBLASLt 13, " % part),
        (part, "cublaslt", False, "cublasLt.h is in none of %s/include" % part),
        (whole, "cublaslt", True, "CUDA 13.9.8 in %s: cuBLASLt 13.7.5, " % whole),
        (nowhere, "runtime", None, "CUDA_HOME=%s (no bin/nvcc)" % nowhere),  # it may find another one
    ]


def main():
    os.chdir(os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = _cases(os.path.realpath(folder))
        for home, target, expected, line in cases:
            builds, said = analyze(home, target)
            if expected in (builds, None) and any(line in each for each in said.splitlines()):
                continue
            wrong += 1
            print("%s of %s: expected %s and a line with \"%s\", got %s and\n%s" % (
                target, home, {True: "a target", False: "an error", None: "either"}[expected], line,
                "a target" if builds else "an error", said))
    print("toolkits: %d, %d wrong" % (len(cases), wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
