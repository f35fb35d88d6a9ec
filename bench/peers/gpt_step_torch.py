#!/usr/bin/env python3
"""Times the GPT step of bench/gpt_step.cc in PyTorch, eager or compiled, as fast as we know how to ask it.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/peers/gpt_step_torch.py --mode=compiled --size=tiny --threads=2

Fused AdamW, scaled_dot_product_attention, q, k and v in one product, flash denormals, no gradients kept
between steps. "compiled" puts forward and loss through torch.compile, which needs g++. PyTorch's wheels
from PyPI carry oneDNN and MKL and an OpenMP runtime of their own. A malloc that keeps its pages was tried
(mallopt without mmap and trimming): no faster, and it takes more memory.

With --processes=2 and --mesh=data=2 each of two processes has half of the batch and as many threads as are said, and
DistributedDataParallel adds up their gradients over gloo; the first one prints.
"""

import contextlib
import math
import os
import sys
import tempfile

import gpt_sizes
import torch_step  # says so where PyTorch is missing

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):

    def __init__(self, hidden, heads, layers):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        for linear in (self.qkv, self.up, self.out, self.down):
            scale = 1 if linear in (self.qkv, self.up) else math.sqrt(2 * layers)
            nn.init.normal_(linear.weight, std=0.02 / scale)
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(hidden, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):

    def __init__(self, layers, hidden, heads, length, batch, vocabulary):
        del batch
        super().__init__()
        self.table, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
        for table in (self.table, self.positions):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(hidden, heads, layers) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens, labels):
        x = self.table(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.table.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def run(rank, options, rendezvous):
    """One process of options.processes."""
    base_bytes = torch_step.begin(options)
    size = gpt_sizes.size_of(options)
    model = Gpt(**size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=gpt_sizes.RATE, betas=gpt_sizes.BETAS,
                                  eps=gpt_sizes.EPSILON, weight_decay=0.0, fused=True)
    tokens, labels = (torch.tensor(rows) for rows in gpt_sizes.tokens_and_labels(size))
    forward = torch_step.compiled(model, options)
    if options.processes > 1:
        if hasattr(os, "sched_setaffinity") and options.processes <= len(os.sched_getaffinity(0)):
            os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
        dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=options.processes)
        forward = nn.parallel.DistributedDataParallel(forward)
        tokens, labels = (rows.chunk(options.processes)[rank] for rows in (tokens, labels))
    step = torch_step.step_of(forward, [(tokens, labels)], [optimizer], options)
    name = "torch " + options.mode + (" ddp" if options.processes > 1 else "")
    with open(os.devnull, "w", encoding="ascii") if rank > 0 else contextlib.nullcontext(sys.stdout) as out:
        with contextlib.redirect_stdout(out):
            gpt_sizes.report(name, torch.__version__, options, step, torch_step.parameters_of(model), base_bytes,
                             lambda: torch_step.more_of(options))
    if options.processes > 1:
        dist.destroy_process_group()


def main():
    parser = gpt_sizes.arguments(__doc__.splitlines()[0], ["eager", "compiled"], meshes=["data=2"], precisions=["bf16"])
    torch_step.add_device(parser)
    parser.add_argument("--processes", type=int, default=1, help="that the batch is dealt out to (default: %(default)s)")
    options = parser.parse_args()
    if options.processes == 1:
        run(0, options, "")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (options, os.path.join(folder, "rendezvous")), nprocs=options.processes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
