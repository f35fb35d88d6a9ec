"""Writes the table of docs/cuda_kernels.md: what every CUDA kernel takes of a card, by what ptxas says when it compiles them,
and beside it what it moves and computes, by bench/predicted/kernels.md.

  python3 ci/cuda_kernels.py            builds all kernels with --config=cuda, then writes the table
  python3 ci/cuda_kernels.py --check    says what the table has otherwise, and fails if there is something

A kernel without __launch_bounds__ is an error: nobody could say how many of its threads a card holds. So is one of which
nothing is known that it moves, for no op's case launches it, and a line of a kernel that is no more.
"""

import collections
import os
import re
import subprocess
import sys

DOCUMENT = "docs/cuda_kernels.md"
BOUNDS = "bench/predicted/kernels.md"
# Where kernels stand that are part of no step.
_APART = ("framework/testing/", "framework/tools/")
_BEGIN = "<!-- begin: ci/cuda_kernels.py -->\n"
_END = "<!-- end: ci/cuda_kernels.py -->\n"

# Of a streaming multiprocessor of the cards that kernels are compiled for: bytes of shared memory. What both have: 64 Ki
# registers in four parts, given out to warps by 256; shared memory given out by 128 bytes, of which each block loses 1,024.
SHARED_BYTES = {"sm_80": 164 * 1024, "sm_90": 228 * 1024}
_WARPS, _BLOCKS, _PARTS, _PART_REGISTERS = 64, 32, 4, 16384

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
_THREADS = re.compile(r"^maxntid ([\d, ]+)$")

# threads: of a block at most; local: bytes of stack and spills.
Kernel = collections.namedtuple("Kernel", "name architecture threads registers shared local")


def _round_up(value, step):
    return -(-value // step) * step


def warps(architecture, threads, registers, shared):
    """How many warps of such a kernel a multiprocessor holds, as cuda_occupancy.h of the toolkit computes it."""
    of_block = -(-threads // 32)
    by_registers = _PART_REGISTERS // _round_up(registers * 32, 256) * _PARTS // of_block
    by_shared = SHARED_BYTES[architecture] // _round_up(shared + 1024, 128)
    return min(_BLOCKS, _WARPS // of_block, by_registers, by_shared) * of_block


def parse(report):
    """The kernels of one report of tools/compile_cuda.sh, by their mangled names."""
    threads = {}
    found = []
    name = architecture = entry = None
    local = 0
    for line in report.splitlines():
        if line.startswith("entry "):
            entry = line.split()[1]
            threads.setdefault(entry, None)
        elif _THREADS.match(line):
            threads[entry] = 1
            for each in _THREADS.match(line).group(1).split(","):
                threads[entry] *= int(each)
        elif _ENTRY.search(line):
            name, architecture = _ENTRY.search(line).groups()
        elif _STACK.search(line) and name:  # functions that it calls come after its registers
            local = sum(map(int, _STACK.search(line).groups()))
        elif _USED.search(line) and name:
            registers, shared = _USED.search(line).groups()
            found.append((name, architecture, int(registers), int(shared or 0), local))
            name = None
    unbounded = sorted(name for name, count in threads.items() if count is None)
    if unbounded:
        raise ValueError("no __launch_bounds__: " + ", ".join(_demangle(unbounded)))
    return [Kernel(name, architecture, threads[name], registers, shared, local)
            for name, architecture, registers, shared, local in found]


def _demangle(names):
    return subprocess.run(["c++filt", "-p"], input="\n".join(names) + "\n", check=True, stdout=subprocess.PIPE,
                          text=True).stdout.splitlines()


def short_name(demangled):
    """`void sluice::cuda::(anonymous namespace)::Softmax<float>` -> `Softmax`."""
    name = re.sub(r"\(anonymous namespace\)::", "", demangled)
    while "<" in name:
        name, before = re.sub(r"<[^<>]*>", "", name), name
        if name == before:
            break
    return name.split()[-1].split("::")[-1]


def _span(values):
    low, high = min(values), max(values)
    return str(low) if low == high else "%d to %d" % (low, high)


def _cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def bounds(text):
    """{kernel: the cells beside it} of the table that //bench:gpu_kernel_bounds prints."""
    rows = [_cells(line) for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in rows}


def unmatched(sources, moved):
    """What is wrong between kernels, {source: names}, and the rows of bounds()."""
    parts_of_steps = [(source, name) for source, names in sorted(sources.items()) if not source.startswith(_APART)
                      for name in sorted(set(names))]
    count = collections.Counter(name for _, name in parts_of_steps)
    said = ["%s %s: has no line in %s, as no case of an op launches it (./bazelw run //bench:predicted writes what they do)"
            % (source, name, BOUNDS) for source, name in parts_of_steps if name not in moved]
    said += ["%s %s: expected a name that no other kernel has" % (source, name)
             for source, name in parts_of_steps if count[name] > 1]
    return said + ["%s: `%s`: there is no such kernel" % (BOUNDS, name) for name in sorted(moved.keys() - count.keys())]


_COLUMNS = ("kernel | instances | threads | registers sm_80 | sm_90 | shared, bytes | local, bytes | warps of 64 sm_80 | sm_90 | "
            "of, largest operand | bytes | of all its kernels | FLOPs | a byte | bound").split(" | ")
_OF_BOUNDS = 6  # of these columns, the last


def table(kernels, moved):
    """kernels: {source: [Kernel, with its short name]}; moved: bounds(). Lines of Markdown: a row a kernel, all its instances
    together."""
    lines = ["| %s |" % " | ".join(_COLUMNS), "|" + "---|" * len(_COLUMNS)]
    for source in sorted(kernels):
        lines.append("| **%s** |%s" % (source, " |" * (len(_COLUMNS) - 1)))
        by_name = collections.defaultdict(list)
        for kernel in kernels[source]:
            by_name[kernel.name].append(kernel)
        for name, instances in sorted(by_name.items()):
            of = {card: [each for each in instances if each.architecture == card] for card in SHARED_BYTES}
            registers = [_span([each.registers for each in of[card]]) for card in SHARED_BYTES]
            held = [_span([warps(card, each.threads, each.registers, each.shared) for each in of[card]])
                    for card in SHARED_BYTES]
            beside = [""] * _OF_BOUNDS if source.startswith(_APART) else moved.get(name, [""] * _OF_BOUNDS)
            lines.append("| `%s` | %d | %s | %s | %s | %s | %s | %s | %s | %s |" % (
                name, len(of["sm_80"]), _span([each.threads for each in instances]), *registers,
                _span([each.shared for each in instances]), _span([each.local for each in instances]), *held,
                " | ".join(beside)))
    return lines


def replace(document, lines):
    """The document with other lines between its marks."""
    begin, end = document.find(_BEGIN), document.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("%s has lost the marks of its table" % DOCUMENT)
    return document[:begin + len(_BEGIN)] + "\n".join(lines) + "\n" + document[end:]


def rows(document):
    """{(source, kernel): the cells beside it} of the document's table."""
    source, found = "", {}
    for line in document.splitlines():
        if line.startswith("| **"):
            source = _cells(line)[0].strip("*")
        elif line.startswith("| `"):
            cells = _cells(line)
            found[source, cells[0].strip("`")] = cells[1:]
    return found


def differences(document, expected):
    """What stands otherwise in the document, by kernel."""
    there, wanted = ({" ".join(key): cells for key, cells in rows(each).items()} for each in (document, expected))
    said = ["%s: not in the table" % key for key in sorted(wanted.keys() - there.keys())]
    said += ["%s: in the table, but there is no such kernel" % key for key in sorted(there.keys() - wanted.keys())]
    return said + ["%s: the table has %s, expected was %s" % (key, " | ".join(there[key]), " | ".join(wanted[key]))
                   for key in sorted(there.keys() & wanted.keys()) if there[key] != wanted[key]]


def _bazel(*arguments):
    result = subprocess.run(["./bazelw", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit("bazelw %s:\n%s" % (" ".join(arguments[:2]), result.stderr[-4000:]))
    return result.stdout.split()


def _reports():
    """{source: its report} of all kernels."""
    rules = 'kind("_cuda_objects rule", //... except //ci/...)'  # those of ci/ are to be refused
    libraries = _bazel("query", rules)
    sources = [label for label in _bazel("query", "labels(srcs, %s)" % rules) if label.endswith(".cu.cc")]
    # The links bazel-bin and its like stay those of the build before.
    _bazel("build", "--config=cuda", "--output_groups=ptxas", "--experimental_convenience_symlinks=ignore", *libraries)
    place = _bazel("info", "--config=cuda", "bazel-bin")[0]
    reports = {}
    for label in sources:
        source = label[2:].replace(":", "/")
        with open(os.path.join(place, source[:-len(".cc")] + ".ptxas.txt"), encoding="utf-8") as report:
            reports[source] = report.read()
    return reports


def main():
    os.chdir(os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    kernels = {}
    for source, report in _reports().items():
        found = parse(report)
        names = map(short_name, _demangle([each.name for each in found]))
        kernels[source] = [each._replace(name=name) for each, name in zip(found, names)]
    with open(DOCUMENT, encoding="utf-8") as file:
        document = file.read()
    with open(BOUNDS, encoding="utf-8") as file:
        moved = bounds(file.read())
    expected = replace(document, table({source: each for source, each in kernels.items() if each}, moved))
    said = differences(document, expected)
    if "--check" not in sys.argv[1:]:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(expected)
    wrong = unmatched({source: [each.name for each in of] for source, of in kernels.items()}, moved)
    print("\n".join(wrong + said), end="\n" if wrong + said else "")
    print("kernels: %d sources, %d kernels with their instances, %d rows %s" % (
        len(kernels), sum(map(len, kernels.values())) // len(SHARED_BYTES), len(said),
        "differ; python3 ci/cuda_kernels.py writes them" if "--check" in sys.argv[1:] else "written anew"))
    return 1 if wrong or said and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
