"""Checks that the emulation of CUDA gives every name that it has the number that NVIDIA's headers give it.

  python3 ci/check_cuda_headers.py [/usr/local/cuda]

Compiles one program with either's headers that prints all enumerators and constants of the emulation's.
"""

import os
import re
import subprocess
import sys
import tempfile

_EMULATED = "framework/testing/cuda_emulation/include"
_HEADERS = ("cuda_runtime.h", "cuda_bf16.h", "cublasLt.h", "cudnn.h", "nccl.h")
_OURS = re.compile(r"(cuda|cublas|CUBLAS|CUDA|cudnn|CUDNN|nccl|NCCL)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENUM = re.compile(r"\benum\b[^{;]*\{([^}]*)\}")
_CONSTANT = re.compile(r"^\s*(?:inline\s+)?constexpr\s+[\w: ]*?(\w+)\s*=|^#define\s+(\w+)\s+[0-9(]", re.MULTILINE)


def names_in(header):
    """The names with numbers that a header's text defines, as NVIDIA begins its names."""
    text = _COMMENT.sub("", header)
    found = set()
    for body in _ENUM.findall(text):
        found.update(re.match(r"\s*(\w*)", entry).group(1) for entry in body.split(","))
    for names in _CONSTANT.findall(text):
        found.update(names)
    return sorted(name for name in found if _OURS.match(name))


def program(headers, names):
    """C++ that prints each name and its number."""
    lines = ["#include <%s>" % header for header in headers] + ["#include <cstdio>", "int main() {"]
    lines += ['  std::printf("%s %%lld\\n", static_cast<long long>(%s));' % (name, name) for name in names]
    return "\n".join(lines + ["}", ""])


def _numbers(source, folder, flags):
    result = subprocess.run(["g++", "-std=c++20", "-w", "-x", "c++", "-", "-o", os.path.join(folder, "numbers"),
                             "-Wl,--unresolved-symbols=ignore-all"] + flags,
                            input=source, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit("does not compile with %s:\n%s" % (" ".join(flags), result.stderr[:2000]))
    return subprocess.run([os.path.join(folder, "numbers")], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def main():
    os.chdir(os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    toolkit = os.path.join((sys.argv[1:] or ["/usr/local/cuda"])[0], "include")
    headers = [name for name in _HEADERS if os.path.exists(os.path.join(_EMULATED, name))]
    names = set()
    for name in os.listdir(_EMULATED):
        with open(os.path.join(_EMULATED, name), encoding="utf-8") as header:
            names.update(names_in(header.read()))
    source = program(headers, sorted(names))
    with tempfile.TemporaryDirectory() as folder:
        emulated = _numbers(source, folder, ["-I.", "-I" + _EMULATED])
        real = _numbers(source, folder, ["-isystem", toolkit, "-isystem", os.path.join(toolkit, "cccl")])
    wrong = ["%s in the emulation, %s in the toolkit" % pair for pair in zip(emulated, real) if pair[0] != pair[1]]
    print("\n".join(wrong), end="\n" if wrong else "")
    print("headers of CUDA: %d names of %s, %d wrong" % (len(names), ", ".join(headers), len(wrong)))
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
