"""Writes the table of docs/cuda_kernels.md: what every CUDA kernel takes of a card, by what ptxas says when it compiles them.

  python3 ci/cuda_kernels.py            builds all kernels with --config=cuda, then writes the table
  python3 ci/cuda_kernels.py --check    says what the table has otherwise, and fails if there is something

A kernel without __launch_bounds__ is an error: nobody could say how many of its threads a card holds.
"""

import collections
import os
import re
import subprocess
import sys

DOCUMENT = "docs/cuda_kernels.md"
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


def table(kernels):
    """kernels: {source: [Kernel, with its short name]}. Lines of Markdown: a row a kernel, all its instances together."""
    lines = ["| kernel | instances | threads | registers sm_80 | sm_90 | shared, bytes | local, bytes | warps of 64 sm_80 | sm_90 |",
             "|---|---|---|---|---|---|---|---|---|"]
    for source in sorted(kernels):
        lines.append("| **%s** | | | | | | | | |" % source)
        by_name = collections.defaultdict(list)
        for kernel in kernels[source]:
            by_name[kernel.name].append(kernel)
        for name, instances in sorted(by_name.items()):
            of = {card: [each for each in instances if each.architecture == card] for card in SHARED_BYTES}
            registers = [_span([each.registers for each in of[card]]) for card in SHARED_BYTES]
            held = [_span([warps(card, each.threads, each.registers, each.shared) for each in of[card]])
                    for card in SHARED_BYTES]
            lines.append("| `%s` | %d | %s | %s | %s | %s | %s | %s | %s |" % (
                name, len(of["sm_80"]), _span([each.threads for each in instances]), *registers,
                _span([each.shared for each in instances]), _span([each.local for each in instances]), *held))
    return lines


def replace(document, lines):
    """The document with other lines between its marks."""
    begin, end = document.find(_BEGIN), document.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("%s has lost the marks of its table" % DOCUMENT)
    return document[:begin + len(_BEGIN)] + "\n".join(lines) + "\n" + document[end:]


def differences(document, expected):
    """What stands otherwise in the document, by kernel."""
    def rows(text):
        source, found = "", {}
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| **"):
                source = cells[0].strip("*")
            elif line.startswith("| `"):
                found[source + " " + cells[0].strip("`")] = cells[1:]
        return found

    there, wanted = rows(document), rows(expected)
    said = ["%s: not in the table" % key for key in sorted(wanted.keys() - there.keys())]
    said += ["%s: in the table, but there is no such kernel" % key for key in sorted(there.keys() - wanted.keys())]
    return said + ["%s: the table has %s, the compiler says %s" % (key, " | ".join(there[key]), " | ".join(wanted[key]))
                   for key in sorted(there.keys() & wanted.keys()) if there[key] != wanted[key]]


def _bazel(*arguments):
    result = subprocess.run(["./bazelw", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit("bazelw %s:\n%s" % (" ".join(arguments[:2]), result.stderr[-4000:]))
    return result.stdout.split()


def _reports():
    """{source: its report} of all kernels."""
    rules = 'kind("_cuda_objects rule", //...)'
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
    expected = replace(document, table({source: each for source, each in kernels.items() if each}))
    said = differences(document, expected)
    if "--check" not in sys.argv[1:]:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(expected)
    print("\n".join(said), end="\n" if said else "")
    print("kernels: %d sources, %d kernels with their instances, %d rows %s" % (
        len(kernels), sum(map(len, kernels.values())) // len(SHARED_BYTES), len(said),
        "differ; python3 ci/cuda_kernels.py writes them" if "--check" in sys.argv[1:] else "written anew"))
    return 1 if said and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
