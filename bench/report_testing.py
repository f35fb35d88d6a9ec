"""What programs of the report print, for tests that run none of them."""

import json

from bench import figures


def step(framework="sluice", median=100.0, parameters=9, loss=(5.5, 4.0), **more):
    """The line that a program of ours or of a peer prints of its steps."""
    return json.dumps(dict({"benchmark": "gpt_step", "framework": framework, "size": "tiny", "threads": 2,
                            "parameters": parameters, "median_ms": median, "peak_bytes": 1000, "base_bytes": 400, "first_loss": loss[0],
                            "last_loss": loss[1]}, **more)) + "\n"


def kernel_figures():
    """Of a step of two kernels, as ops_benchmark prints them."""
    prefix = "ops/resnet50/threads:2/"
    lines = [dict(name=prefix + "conv2d [8,9] -> [8,9]", value=3e6, unit="ns", limit=2e6, note="convolution",
                  parts={"times": 2, "share of the step": 0.75, "flops": 6e8, "bytes": 1e6, "working_set": 1e6}),
             dict(name=prefix + "relu [8,9] -> [8,9]", value=2e6, unit="ns", limit=1e6, note="memory",
                  parts={"times": 1, "share of the step": 0.25, "flops": 72, "bytes": 2e7, "working_set": 2e7}),
             dict(name=prefix + "products of a step", value=6e6, unit="ns", limit=4e6, goal="0.75 of limit"),
             dict(name=prefix + "others of a step", value=2e6, unit="ns", limit=1e6, goal="0.80 of limit"),
             dict(name=prefix + "limit/matmul/f32", value=4e11, unit="FLOP/s"),
             dict(name=prefix + "limit/convolution/f32", value=3e11, unit="FLOP/s"),
             dict(name=prefix + "limit/read/bytes:524288", value=1e11, unit="B/s"),
             dict(name=prefix + "limit/read/bytes:268435456", value=2e10, unit="B/s")]
    return figures.of_lines("\n".join(map(json.dumps, lines)))
