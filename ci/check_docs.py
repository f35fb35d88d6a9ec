"""Checks that what the pages name exists: in code spans (`like this`) names of C++, flags of programs and files of the
project, and of quoted C++ definitions that a source has them word for word.

  python3 ci/check_docs.py

Decision records (docs/adr) are of their day, and are not checked.
"""

import re
import subprocess
import sys

_CODE = (".h", ".cc", ".cu", ".inc", ".proto", ".py", ".sh", ".bzl", ".js", ".bazel")
_SPAN = re.compile(r"`([^`\n]+)`")
_QUALIFIED = re.compile(r"[A-Za-z_]\w*(?:::\w+)+")
_CAMEL_CASE = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+(?:\(\))?")
_FILE = re.compile(r"[\w./]+\.(?:cc|h|py|sh|inc|proto|md|bzl)")
_FLAG = re.compile(r"(?<![\w-])--([a-z]\w+)")
_BAZEL_OWN = re.compile(r"^(?:\./bazelw|bazel) .*?(?: -- |$)")  # its flags are not ours
_PREPROCESSOR = re.compile(r"^[ \t]*#.*", re.MULTILINE)  # of which `define` is no name
_OTHERS = ("absl", "std", "testing")
# A definition begins with a type, and its block is set in by four spaces or more.
_DEFINITION = re.compile(r"^( {4,})((?:const |struct |class |absl::|Tensor ).*\{)$")


def _quotations(lines):
    """(line number, text without the margin) of each block that begins as a C++ definition."""
    number = 0
    while number < len(lines):
        match = _DEFINITION.match(lines[number])
        if not match:
            number += 1
            continue
        margin, begin = len(match.group(1)), number
        while number < len(lines) and (not lines[number].strip() or lines[number].startswith(match.group(1))):
            number += 1
        yield begin + 1, "\n".join(line[margin:] for line in lines[begin:number]).rstrip()


def check(pages, sources, files):
    """Errors, one a line. `pages` and `sources` are texts by path, `files` all paths."""
    words_of = [set(re.findall(r"\w+", _PREPROCESSOR.sub("", text))) for text in sources.values()]
    words = set().union(*words_of)
    errors = []
    for path, text in sorted(pages.items()):
        for match in _SPAN.finditer(text):
            where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
            span = match.group(1)
            names = [name for name in _QUALIFIED.findall(span) if name.split("::")[0] not in _OTHERS]
            if _CAMEL_CASE.fullmatch(span):
                names.append(span.rstrip("()"))
            errors += [f"{where}: no source has {name}" for name in names
                       if not any(of_file.issuperset(name.split("::")) for of_file in words_of)]
            errors += [f"{where}: no program has a flag --{flag}" for flag in _FLAG.findall(_BAZEL_OWN.sub("", span))
                       if flag not in words]
            if _FILE.fullmatch(span) and not any(file == span or file.endswith("/" + span) for file in files):
                errors.append(f"{where}: no file of the project is {span}")
        errors += [f"{path}:{line}: no source has this definition as it is quoted" for line, quoted in _quotations(text.split("\n"))
                   if not any(quoted in source for source in sources.values())]
    return errors


def _read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def main():
    files = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split()
    pages = {path: _read(path) for path in files if path.endswith(".md") and "/adr/" not in path}
    sources = {path: _read(path) for path in files if path.endswith(_CODE)}
    errors = check(pages, sources, files)
    print("".join(error + "\n" for error in errors) + f"docs: {len(pages)} pages, {len(errors)} wrong")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
