#!/usr/bin/env python3.10
"""Asks the original framework which output SBP it gives for the inputs of our op cases, on two ranks.

    ./bazelw build //bench:sbp_cases && bazel-bin/bench/sbp_cases > cases.jsonl
    venv310/bin/python bench/peers/sbp_oneflow.py cases.jsonl --record bench/peers/sbp_oneflow.txt

gpt_step_oneflow.py says how to get its packages. For every signature that we list, the inputs are laid out
as ours says, the op of the same meaning is called, and the layout of its output is read. The original may
box an input that none of its signatures takes, so that a differing output says either that it lacks ours or
that it thinks another one cheaper. Verdicts: same, differs, refused (it raised an error), and no op (it has
none of the same meaning, or none for the CPU). --record writes the table that docs/sbp.md explains.
"""

import argparse
import collections
import json
import re
import subprocess
import sys

import gpt_step_oneflow
import step_report


def attributes_of(text):
    """{"dims": [0, 1], "mean": True, ...} out of our text form."""
    made = {}
    for word in text.split():
        name, _, value = word.partition("=")
        try:
            made[name] = json.loads(value)
        except ValueError:
            made[name] = value
    return made


def _matmul(flow, a, x, y):
    return flow._C.matmul(x, y, transpose_a=a.get("transpose_a", False), transpose_b=a.get("transpose_b", False))


def _input_gradient(flow, a, dy, b):
    if a.get("transpose_a"):
        return flow._C.matmul(b, dy, transpose_a=a.get("transpose_b", False), transpose_b=True)
    return flow._C.matmul(dy, b, transpose_a=False, transpose_b=not a.get("transpose_b", False))


def _right_gradient(flow, a, x, dy):
    if a.get("transpose_b"):
        return flow._C.matmul(dy, x, transpose_a=True, transpose_b=a.get("transpose_a", False))
    return flow._C.matmul(x, dy, transpose_a=not a.get("transpose_a", False), transpose_b=False)


def _whole(flow, shape, like):
    return flow.ones(*shape, placement=like.placement, sbp=flow.sbp.broadcast)


def _gradient(flow, forward, x, dy):
    """What autograd gives for x, whose op the framework chooses."""
    x = x.detach().requires_grad_()
    return flow.autograd.grad(forward(x), x, dy)[0]


def _weight_gradient(flow, a, x, dy):
    if len(x.shape) == 2:
        return flow._C.matmul(x, dy, transpose_a=True)
    transposed = a.get("transpose_b", False)
    shape = (x.shape[-1], dy.shape[-1])
    weight = _whole(flow, shape[::-1] if transposed else shape, x)
    return _gradient(flow, lambda w: flow._C.matmul(x, w, transpose_b=transposed), weight, dy)


def _embedding(flow, a, table, ids):
    if len(table.shape) > 2:
        raise NoOp("groups of tables")
    return flow._C.gather(table, ids, axis=0)


def _embedding_gradient(flow, a, ids, dy):
    table = _whole(flow, (a["rows"], dy.shape[-1]), dy)
    return _gradient(flow, lambda t: flow._C.gather(t, ids, axis=0), table, dy)


def _layer_norm_gradient(flow, a, dy, x, gamma, mean, rstd):
    del mean, rstd
    beta = _whole(flow, gamma.shape, gamma)
    return _gradient(flow, lambda each: _layer_norm(flow, a, each, gamma, beta), x, dy)


def _slice(flow, a, x):
    return flow.narrow(x, a.get("dim", 0), a.get("begin", 0), a["end"] - a.get("begin", 0))


def _pad(flow, a, x):
    dim, sides = a.get("dim", 0), [0] * (2 * len(x.shape))
    at = 2 * (len(x.shape) - 1 - dim)
    sides[at], sides[at + 1] = a.get("begin", 0), a["whole"] - a["end"]
    return flow.nn.functional.pad(x, sides, mode="constant", value=0.0)


def _reduce(flow, a, x):
    dims = a["dims"]
    if a.get("reduction") == "max":
        return flow.amax(x, dims)
    return (flow.mean if a.get("mean") else flow.sum)(x, dims)


def _layer_norm(flow, a, x, gamma, beta):
    """As their module does it on a CPU, of several ops: the kernel of the single one ends the process there."""
    return flow.nn.functional.layer_norm(x, (x.shape[-1],), gamma, beta, a.get("epsilon", 1e-5))


class NoOp(Exception):
    """Of these attributes it has no one op."""


def _channels_second(flow, x):
    return flow.permute(x, [0, len(x.shape) - 1, *range(1, len(x.shape) - 1)])


def _channels_last(flow, x):
    return flow.permute(x, [0, *range(2, len(x.shape)), 1])


def _padding(a):
    padding = a.get("padding", [0, 0])
    if len(padding) > 2:
        raise NoOp("sides of their own")
    return padding


def _conv2d(flow, a, x, w):
    """Images and weights are turned to where it has channels; a permutation takes every layout along."""
    y = flow.nn.functional.conv2d(_channels_second(flow, x), flow.permute(w, [3, 2, 0, 1]), stride=a.get("stride", [1, 1]),
                                  padding=_padding(a), dilation=a.get("dilation", [1, 1]), groups=a.get("groups", 1))
    return _channels_last(flow, y)


def _images(flow, a, shape, like):
    """The images of a forward op whose gradient is asked for, laid out as ours gives the gradient: theirs is told by them."""
    layout = a["our output"]
    sbp = flow.sbp.broadcast if layout.startswith("P") else sbp_named(flow, layout)
    return flow.ones(*shape, placement=like.placement, sbp=sbp)


def _conv2d_input_gradient(flow, a, dy, w):
    x = _images(flow, a, (dy.shape[0], *a["extent"], w.shape[2] * a.get("groups", 1)), dy)
    return _gradient(flow, lambda e: _conv2d(flow, a, e, w), x, dy)


def _conv2d_weight_gradient(flow, a, x, dy):
    w = _whole(flow, (*a["extent"], x.shape[3] // a.get("groups", 1), dy.shape[3]), x)
    return _gradient(flow, lambda e: _conv2d(flow, a, x, e), w, dy)


def _pool(flow, name, a, x):
    if not a.get("count_padding", True):
        raise NoOp("a mean without the padding")
    y = getattr(flow.nn.functional, name)(_channels_second(flow, x), kernel_size=a["window"],
                                          stride=a.get("stride", a["window"]), padding=_padding(a))
    return _channels_last(flow, y)


def _average_pool_gradient(flow, a, dy):
    x = _images(flow, a, (dy.shape[0], *a["extent"], dy.shape[3]), dy)
    return _gradient(flow, lambda e: _pool(flow, "avg_pool2d", a, e), x, dy)


def _prelu(flow, x, slope):
    return _channels_last(flow, flow._C.prelu(_channels_second(flow, x), slope))


def _prelu_slope_gradient(flow, a, x, dy):
    return _gradient(flow, lambda e: _prelu(flow, x, e), _whole(flow, (x.shape[-1],), x), dy)


def _sigmoid_cross_entropy(flow, x, labels):
    return flow.nn.functional.binary_cross_entropy_with_logits(x, labels, reduction="none")


# Ours -> theirs. What is not here they do not have as one op that can be called: attention, cross entropy in
# parts over a split vocabulary, batch norm by parts and groups, margins, samples of classes, sums of rows, updates. Of some
# gradients we keep what the forward op gave (sigmoid, tanh, l2_normalize), which theirs computes from other inputs.
OPS = {
    "matmul": _matmul,
    "matmul_input_gradient": _input_gradient,
    "matmul_right_gradient": _right_gradient,
    "matmul_weight_gradient": _weight_gradient,
    "add": lambda flow, a, x, y: flow.add(x, y),
    "subtract": lambda flow, a, x, y: flow.sub(x, y),
    "multiply": lambda flow, a, x, y: flow.mul(x, y),
    "divide": lambda flow, a, x, y: flow.div(x, y),
    "scale": lambda flow, a, x: flow.mul(x, a["factor"]),
    "add_n": lambda flow, a, *terms: flow._C.add(list(terms)) if len(terms) > 1 else terms[0],
    "sqrt": lambda flow, a, x: flow.sqrt(x),
    "reshape": lambda flow, a, x: flow.reshape(x, a["shape"]),
    "transpose": lambda flow, a, x: flow.permute(x, a["permutation"]),
    "transpose_gradient": lambda flow, a, dy: flow.permute(
        dy, [a["permutation"].index(i) for i in range(len(a["permutation"]))]),
    "slice": _slice,
    "pad": _pad,
    "concat": lambda flow, a, *parts: flow.cat(list(parts), dim=a.get("dim", 0)),
    "cast": lambda flow, a, x: flow.cast(x, {"i32": flow.int32, "bf16": flow.float16}.get(a.get("dtype"), flow.float32)),
    "broadcast": lambda flow, a, x: x.expand(*a["shape"]),
    "reduce": _reduce,
    "gelu": lambda flow, a, x: flow._C.gelu_with_approximate(x, "tanh"),
    "relu": lambda flow, a, x: flow.relu(x),
    "gelu_erf": lambda flow, a, x: flow.gelu(x),
    "gelu_erf_gradient": lambda flow, a, x, dy: _gradient(flow, flow.gelu, x, dy),
    "silu": lambda flow, a, x: flow.silu(x),
    "silu_gradient": lambda flow, a, x, dy: _gradient(flow, flow.silu, x, dy),
    "sigmoid": lambda flow, a, x: flow.sigmoid(x),
    "tanh": lambda flow, a, x: flow.tanh(x),
    "prelu": lambda flow, a, x, slope: _prelu(flow, x, slope),
    "prelu_gradient": lambda flow, a, x, slope, dy: _gradient(flow, lambda e: _prelu(flow, e, slope), x, dy),
    "prelu_slope_gradient": _prelu_slope_gradient,
    "l2_normalize": lambda flow, a, x: flow._C.normalize(x, 2.0, len(x.shape) - 1, a["epsilon"]),
    "conv2d": _conv2d,
    "conv2d_input_gradient": _conv2d_input_gradient,
    "conv2d_weight_gradient": _conv2d_weight_gradient,
    "max_pool": lambda flow, a, x: _pool(flow, "max_pool2d", a, x),
    "max_pool_gradient": lambda flow, a, x, dy: _gradient(flow, lambda e: _pool(flow, "max_pool2d", a, e), x, dy),
    "average_pool": lambda flow, a, x: _pool(flow, "avg_pool2d", a, x),
    "average_pool_gradient": _average_pool_gradient,
    "sigmoid_cross_entropy": lambda flow, a, x, labels: _sigmoid_cross_entropy(flow, x, labels),
    "sigmoid_cross_entropy_gradient": lambda flow, a, x, labels, dy: _gradient(
        flow, lambda e: _sigmoid_cross_entropy(flow, e, labels), x, dy),
    "softmax": lambda flow, a, x: flow.softmax(x, dim=-1),
    "gelu_gradient": lambda flow, a, x, dy: _gradient(flow, lambda e: flow._C.gelu_with_approximate(e, "tanh"), x, dy),
    "relu_gradient": lambda flow, a, x, dy: _gradient(flow, flow.relu, x, dy),
    "softmax_gradient": lambda flow, a, y, dy: _gradient(flow, lambda e: flow.softmax(e, dim=-1), y, dy),
    "dropout": lambda flow, a, x: flow.nn.functional.dropout(x, p=a.get("rate", 0.1)),
    "layer_norm": _layer_norm,
    "layer_norm_gradient": _layer_norm_gradient,
    "embedding_gradient": _embedding_gradient,
    "embedding": _embedding,
}


def sbp_named(flow, text):
    if text.startswith("S"):
        return flow.sbp.split(int(text[1:]))
    return {"B": flow.sbp.broadcast, "P(sum)": flow.sbp.partial_sum}[text]


def name_of(sbp):
    text = str(sbp)
    if "split" in text:
        return "S" + "".join(c for c in text if c.isdigit())
    return "B" if "broadcast" in text else "P(sum)" if "partial" in text else text


def ask(flow, placement, case, signature):
    """(verdict, what the first output got, or why there is none)."""
    if case["op"] not in OPS:
        return "no op", ""
    if any(sbp.startswith("P(") and sbp != "P(sum)" for sbp in signature["inputs"]):
        return "refused", "only sums are partial"
    dtypes = {"f32": flow.float32, "i32": flow.int32, "bf16": flow.float16, "u8": flow.uint8}
    try:
        inputs = [flow.ones(*(type["shape"] or [1]), dtype=dtypes[type["dtype"]], placement=placement,
                            sbp=sbp_named(flow, sbp))
                  for type, sbp in zip(case["inputs"], signature["inputs"])]
        attributes = dict(attributes_of(case["attributes"]), **{"our output": "".join(signature["outputs"][:1])})
        output = OPS[case["op"]](flow, attributes, *inputs)
        output = output[0] if isinstance(output, (list, tuple)) else output
        got = name_of(output.sbp[0])
    except NoOp:
        return "no op", ""
    except Exception as error:  # whatever their checks raise
        lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
        return "refused", (lines[-1] if lines else type(error).__name__)[:80]
    return ("same" if got == signature["outputs"][0] else "differs"), got


def table_of(rows):
    counts = collections.Counter(row[-2] for row in rows)
    lines = ["# %d signatures of our op cases on two devices: %s" % (
        len(rows), ", ".join("%d %s" % (counts[v], v) for v in ("same", "differs", "refused", "no op")))]
    lines.append("# op/case: inputs -> our output | verdict | theirs")
    lines += ["%s/%s: %s -> %s | %s | %s" % (op, case, ",".join(inputs), ours, verdict, theirs)
              for op, case, inputs, ours, verdict, theirs in rows if verdict in ("differs", "refused")]
    without = sorted({row[0] for row in rows} - {row[0] for row in rows if row[-2] != "no op"})
    lines.append("# no op of the same meaning: " + ", ".join(without))
    return "\n".join(line.rstrip(" |") for line in lines) + "\n"


def ask_all(path, record):
    import oneflow as flow
    placement = flow.placement("cpu", ranks=[0, 1])
    rows = []
    with open(path, encoding="utf-8") as file:
        for case in map(json.loads, file):
            for signature in case["signatures"]:
                verdict, theirs = ask(flow, placement, case, signature)
                ours = ",".join(signature["outputs"][:1])  # an update has no output
                rows.append((case["op"], case["case"], signature["inputs"], ours, verdict, theirs))
    if flow.env.get_rank() != 0:
        return
    text = table_of(rows)
    if record:
        with open(record, "w", encoding="utf-8") as file:
            file.write(text)
    print(text, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", help="what //bench:sbp_cases printed")
    parser.add_argument("--record", metavar="FILE", help="write the table here")
    parser.add_argument("--launched", action="store_true", help="in each of the two processes; this program says so itself")
    options = parser.parse_args()
    gpt_step_oneflow.with_libraries()
    try:
        import oneflow
    except ImportError as error:
        step_report.missing("sbp_oneflow", error, gpt_step_oneflow.PACKAGES)
    if options.launched:
        ask_all(options.cases, options.record)
        return 0
    del oneflow
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc_per_node", "2", __file__, options.cases,
               "--launched"]
    return subprocess.run(command + (["--record", options.record] if options.record else []), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
