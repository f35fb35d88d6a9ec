"""Prints how much code there is, by package, and what has grown past its size: a report, never a failure.

  bazel run //ci:size_report        or  python3 ci/size_report.py
"""

import collections
import os
import re
import subprocess
import sys

FILE_LINES = 600
FUNCTION_LINES = 70
_SOURCES = (".cc", ".h", ".cu", ".cuh", ".inc", ".py", ".proto", ".bzl")
_NOT_FUNCTIONS = re.compile(
    r"^\s*(namespace|inline namespace|class|struct|union|enum|typedef|extern|template <[^>]*>\s*(class|struct)|"
    r"constexpr .*=|const .*=|static .*=|inline constexpr .*=|\w[\w:<>, ]* \w+(\[\w*\])* = \{|#|//|[{}])")
_PYTHON_FUNCTION = re.compile(r"^(\s*)def (\w+)")


def long_functions(path, text, limit=FUNCTION_LINES):
    """[(first line, lines, head)] of the functions longer than limit, found by their indentation."""
    lines = text.splitlines()
    if path.endswith(".py"):
        return _long_python_functions(lines, limit)
    if not path.endswith((".cc", ".h", ".cu", ".cuh", ".inc")):
        return []
    found = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.endswith("{") or _NOT_FUNCTIONS.match(line):
            index += 1
            continue
        # The head may take several lines: back to where its parentheses open.
        start = index
        balance = line.count("(") - line.count(")")
        while start > 0 and (balance < 0 or lines[start].lstrip().startswith(":") or lines[start - 1].endswith(",")):
            start -= 1
            balance += lines[start].count("(") - lines[start].count(")")
        # What it returns may be all that stands on the line above, which is indented less.
        while start > 0 and _is_continued(lines[start - 1]) and _indent(lines[start - 1]) < _indent(lines[start]):
            start -= 1
        indent = _indent(lines[start])
        if _NOT_FUNCTIONS.match(lines[start]):
            index += 1
            continue
        end = next((i for i in range(index + 1, len(lines)) if lines[i].startswith(" " * indent + "}")), None)
        if end is None:
            index += 1
            continue
        if end - start + 1 > limit:
            found.append((start + 1, end - start + 1, lines[start].strip()))
        index = end + 1
    return found


def _indent(line):
    return len(line) - len(line.lstrip())


def _is_continued(line):
    return bool(line.strip()) and not line.rstrip().endswith((";", "{", "}", ":", ">", ","))


def _long_python_functions(lines, limit):
    found = []
    for start, line in enumerate(lines):
        match = _PYTHON_FUNCTION.match(line)
        if not match:
            continue
        indent = len(match.group(1))
        end = last = start
        for end in range(start + 1, len(lines)):
            text = lines[end]
            if text.strip() and len(text) - len(text.lstrip()) <= indent and not text.strip().startswith(")"):
                break
            if text.strip():
                last = end
        if last - start + 1 > limit:
            found.append((start + 1, last - start + 1, line.strip()))
    return found


def report(files):
    """files: path -> text. Returns the report's lines."""
    packages = collections.defaultdict(lambda: [0, 0, 0])
    lengths = []
    long_files = []
    functions = []
    for path, text in sorted(files.items()):
        count = text.count("\n")
        is_test = re.search(r"_test\.\w+$", path) is not None
        row = packages[os.path.dirname(path) or "."]
        row[0] += 1
        row[2 if is_test else 1] += count
        lengths.append(count)
        if count > FILE_LINES:
            long_files.append("  %5d  %s" % (count, path))
        functions += ["  %5d  %s:%d  %s" % (n, path, line, head) for line, n, head in long_functions(path, text)]
    out = ["%-40s %6s %8s %8s" % ("package", "files", "code", "tests")]
    out += ["%-40s %6d %8d %8d" % ((name,) + tuple(row)) for name, row in sorted(packages.items())]
    out.append("%-40s %6d %8d %8d" % (("total",) + tuple(map(sum, zip(*packages.values())))) if packages else "total 0")
    out.append("median file: %d lines" % (sorted(lengths)[len(lengths) // 2] if lengths else 0))
    out.append("files past %d lines: %d" % (FILE_LINES, len(long_files)))
    out += long_files
    out.append("functions past %d lines: %d" % (FUNCTION_LINES, len(functions)))
    return out + functions


def main():
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    files = {}
    for path in listed.splitlines():
        full = os.path.join(root, path)
        if path.endswith(_SOURCES) and not path.startswith("third_party/") and os.path.exists(full):
            with open(full, encoding="utf-8") as source:
                files[path] = source.read()
    print("\n".join(report(files)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
