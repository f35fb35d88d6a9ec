"""A training step as bench/step_timing.h and its peers time it, and the line of JSON that they give.

Only the standard library.
"""

import argparse
import json
import os
import resource
import statistics
import time


def arguments(description, modes, meshes=(), precisions=()):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mesh", choices=["data=1", *meshes], default="data=1",
                        help="devices of the process; the batch grows with the axis data (default: %(default)s)")
    parser.add_argument("--precision", choices=["f32", *precisions], default="f32")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    return parser


def missing(script, error, packages):
    """Exit status 3 and a line that begins with "missing:" mean that the peer cannot be had here."""
    print("missing: %s: %s; it needs %s" % (script, error, packages), flush=True)
    raise SystemExit(3)


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(benchmark, size, units, framework, version, options, step, parameters, base_bytes, more=dict):
    """Runs `step`, which returns the loss as a float and so waits for the step's end, and prints the line.

    `units`: what a step is told in and how many there are, ("tokens", 1024). `base_bytes` were resident when the packages
    were loaded and nothing else was done. `more` gives further fields when all steps are done.
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
    unit, count = units
    median = statistics.median(milliseconds)
    print(json.dumps({
        "benchmark": benchmark,
        "framework": framework,
        "version": version,
        "size": size,
        "mesh": options.mesh,
        "precision": options.precision,
        "threads": options.threads,
        "parameters": parameters,
        unit + "_per_step": count,
        "step_ms": milliseconds,
        "median_ms": median,
        unit + "_per_second": count / median * 1e3,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "base_bytes": base_bytes,
        "start_seconds": started,
        "first_loss": first,
        "last_loss": last,
        **more(),
    }), flush=True)
