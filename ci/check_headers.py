"""Checks that every header compiles alone.

A header that is the first include of a source file, which the build has compiled, needs no second look, unless the source
is a test's: those have read others before (tools/precompiled.bzl). The rest is compiled here, each alone. Generated
headers are looked for in the directories given as arguments.

  python3 ci/check_headers.py bazel-bin
"""

import concurrent.futures
import os
import re
import subprocess
import sys

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(\S+)', re.MULTILINE)
# The floor of all that runs: headers of vector code need it.
_FLAGS = ["-std=c++20", "-march=x86-64-v3", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]


def proven_by_the_build(sources):
    """sources: {path: text} of source files. The headers that some of them include before anything else."""
    firsts = (_INCLUDE.search(text) for path, text in sources.items() if not path.endswith("_test.cc"))
    return {match.group(1).strip('"') for match in firsts if match and match.group(1).startswith('"')}


def _read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as source:
        return source.read()


def main():
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=root, check=True, stdout=subprocess.PIPE,
                            text=True).stdout.splitlines()
    listed = [path for path in listed if not path.startswith("third_party/") and os.path.exists(os.path.join(root, path))]
    headers = [path for path in listed if path.endswith(".h")]
    proven = proven_by_the_build({path: _read(root, path) for path in listed if path.endswith(".cc")})
    # CUDA's headers are the emulation's, as in a build without a toolkit, whatever the machine has.
    includes = ["-I.", "-Iframework/testing/cuda_emulation/include"]
    includes += ["-I" + os.path.abspath(directory) for directory in sys.argv[1:]]

    def compile_alone(header):
        # An include through stdin: a header as the main file would draw warnings of its own.
        return subprocess.run(["g++"] + _FLAGS + includes + ["-"], cwd=root, input='#include "%s"\n' % header,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    alone = [header for header in headers if header not in proven]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compile_alone, alone))
    failed = [header for header, result in zip(alone, results) if result.returncode != 0]
    for header, result in zip(alone, results):
        if result.returncode != 0:
            print("%s does not compile alone:\n%s" % (header, "\n".join(result.stdout.splitlines()[:12])))
    print("headers: %d, of them %d compiled here alone, %d failed" % (len(headers), len(alone), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
