"""Checks all JavaScript of the repository by eslint: names that nothing defines, names that nothing uses, and more
(ci/eslintrc.json). The scripts of one folder are one page and share their names, so they are read as one script.

  python3 ci/check_javascript.py
"""

import json
import os
import subprocess
import sys

_CONFIG = os.path.join("ci", "eslintrc.json")


def folders_of(paths):
    """The paths of scripts, by the folder that holds them."""
    folders = {}
    for path in sorted(paths):
        folders.setdefault(os.path.dirname(path), []).append(path)
    return folders


def joined(texts):
    """texts: {path: text}. One script, and for each of its lines the (path, line) that it comes from."""
    lines, origins = [], []
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            lines.append(line)
            origins.append((path, number))
    return "\n".join(lines) + "\n", origins


def lint(root, script):
    """What eslint says of a script: a list of objects with line, column, ruleId and message."""
    # eslint finds its modules with whatever Node comes first on PATH, Debian's or another.
    environment = {**os.environ, "NODE_PATH": "/usr/share/nodejs"}
    ran = subprocess.run(["eslint", "--no-eslintrc", "--config", os.path.join(root, _CONFIG), "--format=json", "--stdin",
                          "--stdin-filename=page.js"],
                         cwd=root, env=environment, input=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode not in (0, 1):
        raise RuntimeError("eslint ended with %d: %s" % (ran.returncode, ran.stderr.strip()))
    return [message for file in json.loads(ran.stdout) for message in file["messages"]]


def errors_of(root, texts):
    """What is wrong with the scripts of one page, one line each, by their own lines."""
    script, origins = joined(texts)
    errors = []
    for message in lint(root, script):
        path, number = origins[min(message.get("line", 1), len(origins)) - 1]
        rule = " (%s)" % message["ruleId"] if message["ruleId"] else ""  # there is none for a script that does not parse
        errors.append("%s:%d:%d: %s%s" % (path, number, message.get("column", 1), message["message"], rule))
    return errors


def _read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as source:
        return source.read()


def main():
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "ls-files", "*.js"], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    paths = [path for path in listed if os.path.exists(os.path.join(root, path))]
    errors = []
    try:
        for scripts in folders_of(paths).values():
            errors += errors_of(root, {path: _read(root, path) for path in scripts})
    except FileNotFoundError:
        print("javascript: eslint is not on PATH; tools/install_deps.sh ci/apt-packages.txt installs it")
        return 1
    for error in errors:
        print(error)
    print("javascript: %d files, %d lines that are wrong" % (len(paths), len(errors)))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
