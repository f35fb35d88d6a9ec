#!/usr/bin/env python3
"""Times the collectives of PyTorch's gloo among processes of this machine: what boxing is beside.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/peers/gloo_all_reduce.py --processes=2 --mib=1,16,64

One line a case, under the name of the case of //bench:boxing_benchmark that moves the same logical tensor:
all-reduce is P -> B, all-gather S0 -> B, reduce-scatter P -> S0, all-to-all S0 -> S1. The value is bytes of
the logical tensor a second, by the lower quartile of the times, as in boxing_benchmark. Where gloo lacks a
collective it is made of those that it has, as a user would: a reduce-scatter of one reduce for each process.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import step_report

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as processes
except ImportError as error:
    step_report.missing("gloo_all_reduce", error, "pip install torch")


def cases(rank, count, elements):
    """(name, what is run), over tensors of `elements` floats, made once."""
    whole = torch.ones(elements)
    part = torch.ones(elements // count)
    gathered = [torch.empty(elements // count) for _ in range(count)]
    pieces = list(torch.ones(elements).split(elements // count))
    given = list(torch.ones(elements // count).split(elements // count // count))
    taken = [torch.empty(elements // count // count) for _ in range(count)]

    def reduce_scatter():
        try:
            dist.reduce_scatter(part, pieces)
        except (RuntimeError, ValueError):
            for to in range(count):
                dist.reduce(pieces[to], to)

    def all_to_all():
        try:
            dist.all_to_all(taken, given)
        except (RuntimeError, ValueError):
            sends = [dist.P2POp(dist.isend, given[to], to) for to in range(count) if to != rank]
            takes = [dist.P2POp(dist.irecv, taken[of], of) for of in range(count) if of != rank]
            for work in dist.batch_isend_irecv(sends + takes):
                work.wait()

    return [("p_to_b", lambda: dist.all_reduce(whole)), ("s0_to_b", lambda: dist.all_gather(gathered, part)),
            ("p_to_s0", reduce_scatter), ("s0_to_s1", all_to_all)]


def run(rank, count, sizes, rendezvous, options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=count)
    for mib in sizes:
        for name, collective in cases(rank, count, mib << 18):
            if options.only and name not in options.only.split(","):
                continue
            times = []
            collective()
            repeats = torch.tensor([3])
            while len(times) < repeats.item():
                dist.barrier()
                began = time.perf_counter()
                collective()
                slowest = torch.tensor([time.perf_counter() - began])
                dist.all_reduce(slowest, dist.ReduceOp.MAX)
                times.append(slowest.item())
                # From the slowest process's times, so that all repeat equally often.
                repeats[0] = min(200, max(5, int(options.seconds / max(times[0], 1e-4))))
            if rank == 0:
                quartile = sorted(times)[len(times) // 4]
                print(json.dumps({"name": options.name.format(collective=name, processes=count, mib=mib),
                                  "unit": options.unit, "value": (mib << 20) / quartile}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mib", default="1,16,64", help="sizes of the logical tensor")
    parser.add_argument("--only", default="", help="cases, with commas; default: all")
    parser.add_argument("--name", default="boxing/{collective}/devices:{processes}/mib:{mib}", help="of a figure (default: %(default)s)")
    parser.add_argument("--unit", default="/s", help="of a figure (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="a case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = [int(size) for size in options.mib.split(",")]
        processes.spawn(run, (options.processes, sizes, os.path.join(folder, "rendezvous"), options),
                        nprocs=options.processes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
