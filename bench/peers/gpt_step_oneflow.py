#!/usr/bin/env python3.10
"""Times the GPT step of bench/gpt_step.cc in the original framework: its last release, as a static graph.

    python3.10 -m venv venv310
    venv310/bin/pip install oneflow "numpy<2" nvidia-cudnn-cu11==8.5.0.96 nvidia-cublas-cu11==11.10.3.66
    venv310/bin/python bench/peers/gpt_step_oneflow.py --size=tiny --threads=2

With --processes=2 and --mesh=data=2 each of two processes has half of the batch, parameters are broadcast and the framework
adds up their gradients; the first one prints.

OneFlow 0.9.0 is the last wheel on PyPI that runs on a CPU alone, under CPython 3.10, which Debian 12 does
not package (pyenv builds one). The wheel wants two CUDA libraries to be there, though it computes on the CPU.
"""

import contextlib
import glob
import math
import os
import subprocess
import sys

import gpt_sizes
import step_report

PACKAGES = 'CPython 3.10, pip install oneflow "numpy<2" nvidia-cudnn-cu11==8.5.0.96 nvidia-cublas-cu11==11.10.3.66'


def with_libraries():
    """Starts this program again with the CUDA libraries of its own packages where the loader finds them."""
    folders = sorted(glob.glob(os.path.join(sys.prefix, "lib/python3.*/site-packages/nvidia/*/lib")))
    known = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if folders and folders[0] not in known:
        os.environ["LD_LIBRARY_PATH"] = ":".join(folders + [path for path in known if path])
        os.execv(sys.executable, [sys.executable] + sys.argv)


def build(size):
    """The model as a module; defined here, since its base class comes with the package."""

    class Block(flow.nn.Module):

        def __init__(self, hidden, heads, layers, length):
            super().__init__()
            self.heads = heads
            self.register_buffer("mask", flow.triu(flow.full((length, length), -1e9), 1).reshape(1, 1, length, length))
            self.norm1, self.norm2 = flow.nn.LayerNorm(hidden), flow.nn.LayerNorm(hidden)
            self.qkv, self.out = flow.nn.Linear(hidden, 3 * hidden), flow.nn.Linear(hidden, hidden)
            self.up, self.down = flow.nn.Linear(hidden, 4 * hidden), flow.nn.Linear(4 * hidden, hidden)
            for linear, scale in ((self.qkv, 1), (self.up, 1), (self.out, 2 * layers), (self.down, 2 * layers)):
                flow.nn.init.normal_(linear.weight, std=0.02 / math.sqrt(scale))
                flow.nn.init.zeros_(linear.bias)

        def attention(self, x):
            batch, length, hidden = x.shape
            q, k, v = (part.reshape(batch, length, self.heads, hidden // self.heads).transpose(1, 2)
                       for part in flow.chunk(self.qkv(x), 3, dim=2))
            scores = flow.matmul(q, k.transpose(2, 3))
            scores = scores * (1 / math.sqrt(hidden // self.heads)) + self.mask  # its fused one is CUDA's alone
            y = flow.matmul(flow.softmax(scores, dim=-1), v)
            return self.out(y.transpose(1, 2).reshape(batch, length, hidden))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(flow._C.gelu_with_approximate(self.up(self.norm2(x)), "tanh"))

    class Gpt(flow.nn.Module):

        def __init__(self, layers, hidden, heads, length, batch, vocabulary):
            super().__init__()
            self.table = flow.nn.Parameter(flow.randn(vocabulary, hidden) * 0.02)
            self.positions = flow.nn.Parameter(flow.randn(length, hidden) * 0.02)
            self.blocks = flow.nn.Sequential(*[Block(hidden, heads, layers, length) for _ in range(layers)])
            self.norm = flow.nn.LayerNorm(hidden)
            self.rows, self.hidden = batch * length, hidden

        def forward(self, tokens, labels):
            x = self.blocks(flow._C.gather(self.table, tokens, axis=0) + self.positions)
            logits = flow.matmul(self.norm(x).reshape(self.rows, self.hidden), self.table, transpose_b=True)
            return flow._C.sparse_softmax_cross_entropy(logits, labels.reshape(self.rows)).mean()

    return Gpt(**size)


def run(options):
    """One process of options.processes."""
    flow.set_num_threads(options.threads)
    base_bytes = step_report.resident_bytes()
    model = build(gpt_sizes.size_of(options))
    tokens, labels = (flow.tensor(rows, dtype=flow.int32)
                      for rows in gpt_sizes.tokens_and_labels(gpt_sizes.size_of(options)))
    if options.processes > 1:
        everywhere = flow.placement("cpu", ranks=list(range(options.processes)))
        model = model.to_global(placement=everywhere, sbp=flow.sbp.broadcast)
        tokens, labels = (rows.to_global(placement=everywhere, sbp=flow.sbp.broadcast).to_global(sbp=flow.sbp.split(0))
                          for rows in (tokens, labels))
    optimizer = flow.optim.AdamW(model.parameters(), lr=gpt_sizes.RATE, betas=gpt_sizes.BETAS, eps=gpt_sizes.EPSILON,
                                 weight_decay=0.0)

    def value_of(loss):
        return loss.to_global(sbp=flow.sbp.broadcast).to_local().item() if options.processes > 1 else loss.item()

    class Step(flow.nn.Graph):

        def __init__(self):
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, tokens, labels):
            loss = self.model(tokens, labels)
            loss.backward()
            return loss

    def eager():
        loss = model(tokens, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value_of(loss)

    graph = Step()
    gpt_sizes.report("oneflow " + options.mode, flow.__version__, options,
                     eager if options.mode == "eager" else lambda: value_of(graph(tokens, labels)),
                     sum(p.numel() for p in model.parameters()), base_bytes)


def main():
    parser = gpt_sizes.arguments(__doc__.splitlines()[0], ["graph", "eager"], meshes=["data=2"])
    parser.add_argument("--processes", type=int, default=1, help="that the batch is dealt out to (default: %(default)s)")
    parser.add_argument("--launched", action="store_true", help="in each of several processes; this program says so itself")
    options = parser.parse_args()
    with_libraries()
    global flow  # only now: the library must find its CUDA libraries
    try:
        import oneflow as flow
    except ImportError as error:
        step_report.missing("gpt_step_oneflow", error, PACKAGES)
    if options.processes > 1 and not options.launched:
        command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc_per_node", str(options.processes), __file__]
        return subprocess.run(command + sys.argv[1:] + ["--launched"], check=False).returncode
    with open(os.devnull, "w", encoding="ascii") if flow.env.get_rank() > 0 else contextlib.nullcontext(sys.stdout) as out:
        with contextlib.redirect_stdout(out):
            run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
