"""What the two rooflines show: every kernel of the models' steps against the machine's limits, out of the rows of group
ops. Pure."""

import statistics

from bench import charts
from bench.figures import text_of_share

_ARITHMETIC = ("matmul", "conv2d", "attention", "attention_gradient", "padded_attention", "padded_attention_gradient")


def is_limit(row):
    """A limit of the machine that ops_benchmark measured, no kernel."""
    return row.name.startswith("ops/") and "/limit/" in row.name


def is_kernel(row):
    """One of those that a sum is made of."""
    return row.name.startswith("ops/") and "times" in row.parts


def _limits(rows):
    """Medians by name over all processes that measured them: "matmul/f32"."""
    found = {}
    for row in rows:
        if is_limit(row):
            found.setdefault(row.name.split("/limit/")[1], []).extend(row.ours)
    return {name: statistics.median(values) for name, values in found.items()}


def _bandwidth(limits, loop):
    """(bytes of the working set, bytes a second), ascending."""
    prefix = loop + "/bytes:"
    return sorted((int(name[len(prefix):]), value) for name, value in limits.items() if name.startswith(prefix))


def _kernels(rows, styles):
    """(op, row, seconds of one run, style, title) of each kernel that a step would notice."""
    for row in rows:
        if not is_kernel(row) or not row.ours or row.parts["share of the step"] < 1e-4:
            continue
        words = row.name.split("/")
        size, op = words[1], words[-1]
        if size not in styles:
            continue
        low = words[3] == "bf16"
        seconds = statistics.median(row.ours) * 1e-9
        title = "%s%s: %s, %d times, %s of its limit (%s)" % (size, " bf16" if low else "", op, row.parts["times"],
                                                               text_of_share(row.share or 0), row.note)
        yield op.split(" ")[0], row, seconds, styles[size] + (" hollow" if low else ""), title


def is_arithmetic(op):
    return op.startswith(("matmul", "conv2d")) or op in _ARITHMETIC


def arithmetic(rows, styles, legend):
    """Products, convolutions and attention: operations a second over operations a byte."""
    limits = _limits(rows)
    points = []
    for op, row, seconds, style, title in _kernels(rows, styles):
        flops, moved = row.parts["flops"], row.parts["bytes"]
        if is_arithmetic(op) and flops and moved:
            points.append((flops / moved, flops / seconds * 1e-9, row.parts["share of the step"], style, title))
    curves = []
    for name, words in (("matmul/bf16", "products bf16"), ("convolution/bf16", "convolutions bf16"),
                        ("matmul/f32", "products f32"), ("convolution/f32", "convolutions f32")):
        if name in limits:
            curves.append(("%s %.0f" % (words, limits[name] * 1e-9),
                           [(1e-3, limits[name] * 1e-9), (1e6, limits[name] * 1e-9)], "limit"))
    highest = max([limits.get("matmul/bf16", 0), limits.get("matmul/f32", 0)]) * 1e-9
    bandwidth = _bandwidth(limits, "read")
    for of, words in ((bandwidth[:1], "from L2"), (bandwidth[-1:], "from memory")):
        for _, rate in of:
            # Up to where arithmetic binds.
            curves.append((words, [(1e-3, rate * 1e-12), (highest / (rate * 1e-9), highest)], "limit"))
    return charts.scatter(points, curves, "operations a byte that is read or written", "GFLOP/s", legend)


def memory(rows, styles, legend):
    """All other kernels: bytes a second over the bytes that they work on."""
    limits = _limits(rows)
    points = []
    for op, row, seconds, style, title in _kernels(rows, styles):
        if not is_arithmetic(op) and row.parts["bytes"] and row.parts["working_set"]:
            points.append((row.parts["working_set"], row.parts["bytes"] / seconds * 1e-9,
                           row.parts["share of the step"], style, title))
    curves = []
    for loop, words in (("read", "read"), ("triad", "c = a + 3 b")):
        line = _bandwidth(limits, loop)
        if line:
            # Outside of what was measured the curve goes on as at its ends.
            line = [(1.0, line[0][1])] + line + [(1e13, line[-1][1])]
            curves.append((words, [(size, rate * 1e-9) for size, rate in line], "limit"))
    return charts.scatter(points, curves, "bytes of the working set", "GB/s", legend)
