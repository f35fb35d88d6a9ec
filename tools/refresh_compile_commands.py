#!/usr/bin/env python3
"""Writes compile_commands.json for clangd and clang-tidy, from what Bazel would run.

  tools/refresh_compile_commands.py [BAZEL FLAG OR TARGET]...        default target: //...

Build the targets once, so that generated headers exist.
"""

import json
import os
import subprocess
import sys

# What gcc says and clang does not understand.
_GCC_ONLY = ("-fno-canonical-system-headers", "-Wno-free-nonheap-object", "-Wunused-but-set-parameter")


def _bazel(root, *arguments):
    return subprocess.run(("bazel",) + arguments, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    targets = [argument for argument in sys.argv[1:] if not argument.startswith("-")] or ["//..."]
    actions = json.loads(_bazel(root, "aquery", 'mnemonic("CppCompile", %s)' % " + ".join(targets),
                                "--output=jsonproto", "--include_artifacts=false", "--noshow_progress", *flags))
    execution_root = _bazel(root, "info", "execution_root", "--noshow_progress").strip()
    commands = {}
    for action in actions.get("actions", []):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        in_place = os.path.join(root, source)
        if source in commands or not os.path.exists(in_place):
            continue
        commands[source] = {
            "directory": execution_root,
            "file": in_place,
            "arguments": [in_place if argument == source else argument for argument in arguments
                          if argument not in _GCC_ONLY and not argument.startswith("-frandom-seed")],
        }
    with open(os.path.join(root, "compile_commands.json"), "w", encoding="utf-8") as out:
        json.dump(list(commands.values()), out, indent=1)
    print("compile_commands.json: %d files" % len(commands))


if __name__ == "__main__":
    main()
