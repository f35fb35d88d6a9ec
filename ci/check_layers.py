"""Checks that every include and every dependency in a BUILD file goes to a layer that ci/layers.txt allows, and that no
header drags a heavy library into files that do not need it.

  bazel run //ci:check_layers        or  python3 ci/check_layers.py
"""

import os
import re
import subprocess
import sys

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_LABEL = re.compile(r'"//([\w/.-]+)(?::[\w/.+-]+)?"')
_RULE = re.compile(r"^(\w+)\(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_TESTS = " (tests)"
# Libraries whose headers take a second or more to compile: for .cc files alone.
_ONLY_IN_SOURCES = re.compile(r"(oneapi|nlohmann|google/protobuf)/|framework/data/.*\.pb\.h$|dnnl|.*/onednn\.h$")
# What several sources share of such a library is declared in one header of ours, which is for .cc files alone in its turn.
_WRAPPERS = ("framework/kernels/cpu/onednn.h",)
_ANY_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)
# Those who read or write a plan; nobody else's file reaches plan.pb.h, by whatever headers.
_KNOW_THE_PLAN = ("framework/plan", "framework/actor", "framework/sim", "framework/compiler", "framework/explain", "framework/runtime",
                  "framework/session", "framework/testing", "framework/conformance", "bench")


class Layers:
    """The rows of layers.txt: what each directory, and its tests, may use."""

    def __init__(self, text):
        self.uses = {}
        self.test_uses = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if line:
                self._add_row(number, line)

    def _add_row(self, number, line):
        name, colon, used = line.partition(":")
        name = name.strip()
        tests = name.endswith(_TESTS)
        if tests:
            name = name[: -len(_TESTS)]
        rows = self.test_uses if tests else self.uses
        if not colon or name in rows:
            raise ValueError("layers.txt:%d: expected one row `name: what it may use`" % number)
        allowed = set()
        for word in used.split():
            layer = word.lstrip("=")
            if layer not in self.uses:
                raise ValueError("layers.txt:%d: %s is no row above" % (number, layer))
            allowed.add(layer)
            if not word.startswith("="):
                allowed |= self.uses[layer]
        rows[name] = allowed

    def layer_of(self, path):
        """The longest row that is a prefix of the path, or None."""
        parts = path.split("/")
        for length in range(len(parts), 0, -1):
            prefix = "/".join(parts[:length])
            if prefix in self.uses:
                return prefix
        return None

    def allowed(self, layer, in_test):
        allowed = {layer} | self.uses[layer]
        if in_test:
            for name, extra in self.test_uses.items():
                if layer == name or layer.startswith(name + "/"):
                    allowed |= extra
        return allowed


def _is_ours(path, tops):
    return path.split("/")[0] in tops


def test_only_sources(files):
    """The files of tests, and of libraries that their BUILD files call testonly: they may use what tests may."""
    sources = set()
    for path, text in files.items():
        if os.path.basename(path) != "BUILD.bazel":
            continue
        for kind, rule in _RULE.findall(text):
            if kind.endswith("_test") or re.search(r"\btestonly = True", rule):
                sources.update(os.path.join(os.path.dirname(path), name)
                               for name in re.findall(r'"([\w.-]+\.(?:cc|h))"', rule))
    return sources


def check(layers, files):
    """files: path -> text. Returns (list of errors, number of edges looked at)."""
    tops = {name.split("/")[0] for name in layers.uses}
    errors = []
    edges = 0
    test_only = test_only_sources(files)
    for path in sorted(files):
        if not _is_ours(path, tops):
            continue
        is_build = os.path.basename(path) == "BUILD.bazel"
        layer = layers.layer_of(os.path.dirname(path))
        text = files[path]
        if is_build:
            text = re.sub(r"#.*", "", text)
        targets = [
            (m.group(1) if is_build else os.path.dirname(m.group(1)), text.count("\n", 0, m.start()) + 1)
            for m in (_LABEL if is_build else _INCLUDE).finditer(text)
        ]
        targets = [(target, line) for target, line in targets if _is_ours(target, tops)]
        if layer is None:
            if not is_build:
                errors.append("%s: no row of ci/layers.txt covers it" % path)
            continue
        # A BUILD file holds libraries and tests; the includes tell them apart.
        allowed = layers.allowed(layer, is_build or path.endswith("_test.cc") or path in test_only)
        for target, line in targets:
            edges += 1
            used = layers.layer_of(target)
            if used is None:
                errors.append("%s:%d: no row of ci/layers.txt covers %s" % (path, line, target))
            elif used not in allowed:
                errors.append("%s:%d: %s may not use %s" % (path, line, layer, used))
    return errors, edges


def _reaches(path, files, wanted, seen):
    """Whether a file includes, over any number of ours, one whose path ends with `wanted`."""
    if path.endswith(wanted):
        return True
    if path in seen or path not in files:
        return False
    seen.add(path)
    return any(_reaches(used, files, wanted, seen) for used in _INCLUDE.findall(files[path]))


def check_heavy(files):
    """files: path -> text. Returns a list of errors."""
    errors = []
    test_only = test_only_sources(files)
    for path in sorted(files):
        if path.endswith(".h") and path not in _WRAPPERS:
            errors += ["%s: %s is for .cc files alone" % (path, used)
                       for used in _ANY_INCLUDE.findall(files[path]) if _ONLY_IN_SOURCES.match(used)]
        in_test = path in test_only or path.endswith("_test.cc")
        if not in_test and not path.startswith(_KNOW_THE_PLAN) and _reaches(path, files, "plan.pb.h", set()):
            errors.append("%s: includes plan.pb.h, though it neither reads nor writes plans" % path)
    return errors


def main():
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "ci/layers.txt")) as rows:
        layers = Layers(rows.read())
    listed = subprocess.run(
        ["git", "ls-files", "*.cc", "*.h", "*.cu", "*.cuh", "*.inc", "*BUILD.bazel"],
        cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    files = {}
    for path in listed:
        full = os.path.join(root, path)
        if os.path.exists(full):
            with open(full, encoding="utf-8") as source:
                files[path] = source.read()
    errors, edges = check(layers, files)
    errors += check_heavy(files)
    print("\n".join(errors), end="\n" if errors else "")
    print("layers: %d files, %d edges, %d wrong" % (len(files), edges, len(errors)))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
