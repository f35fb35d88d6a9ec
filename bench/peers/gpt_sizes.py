"""What the GPT step is that bench/gpt_step.cc and its peers time, and the line of JSON that they give.

Used by gpt_step_torch.py, gpt_step_jax.py and gpt_step_oneflow.py; only the standard library.
"""

import argparse
import json
import os
import resource
import statistics
import time

# As in bench/gpt_step.cc; report.py compares the numbers of parameters that come of it.
SIZES = {
    "tiny": dict(layers=4, hidden=256, heads=4, length=128, batch=8, vocabulary=256),
    "small": dict(layers=12, hidden=768, heads=12, length=256, batch=4, vocabulary=50304),
}
RATE, BETAS, EPSILON = 3e-4, (0.9, 0.95), 1e-8  # AdamW without decay; no clip, no dropout


def arguments(description, modes, meshes=(), precisions=()):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mesh", choices=["data=1", *meshes], default="data=1",
                        help="devices of the process; the batch grows with the axis data (default: %(default)s)")
    parser.add_argument("--precision", choices=["f32", *precisions], default="f32")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    return parser


def size_of(options):
    """The size whose batch is that of all devices together."""
    axis, count = options.mesh.split("=")
    size = dict(SIZES[options.size])
    size["batch"] *= int(count) if axis == "data" else 1
    return size


def missing(script, error, packages):
    """Exit status 3 and a line that begins with "missing:" mean that the peer cannot be had here."""
    print("missing: %s: %s; it needs %s" % (script, error, packages), flush=True)
    raise SystemExit(3)


def tokens_and_labels(size):
    """The same for every step, as lists of rows; a step that does not learn them does not train."""
    state = 12345
    rows = []
    for _ in range(2 * size["batch"]):
        row = []
        for _ in range(size["length"]):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            row.append((state >> 33) % size["vocabulary"])
        rows.append(row)
    return rows[:size["batch"]], rows[size["batch"]:]


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(framework, version, options, step, parameters, base_bytes):
    """Runs `step`, which returns the loss as a float and so waits for the step's end, and prints the line.

    `base_bytes` were resident when the packages were loaded and nothing else was done.
    """
    began = time.perf_counter()
    first = last = step()
    started = time.perf_counter() - began
    for _ in range(options.warmup - 1):
        last = step()
    milliseconds = []
    for _ in range(options.steps):
        before = time.perf_counter()
        last = step()
        milliseconds.append((time.perf_counter() - before) * 1e3)
    size = size_of(options)
    tokens = size["batch"] * size["length"]
    median = statistics.median(milliseconds)
    print(json.dumps({
        "benchmark": "gpt_step",
        "framework": framework,
        "version": version,
        "size": options.size,
        "mesh": options.mesh,
        "precision": options.precision,
        "threads": options.threads,
        "parameters": parameters,
        "tokens_per_step": tokens,
        "step_ms": milliseconds,
        "median_ms": median,
        "tokens_per_second": tokens / median * 1e3,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "base_bytes": base_bytes,
        "start_seconds": started,
        "first_loss": first,
        "last_loss": last,
    }), flush=True)
