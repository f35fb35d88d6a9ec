"""What the training steps of PyTorch that are timed have in common: flags, threads, precision, torch.compile.

Used by the peers of bench/*_step.cc.
"""

import os
import sys

import step_report

try:
    import torch
except ImportError as error:
    step_report.missing(os.path.splitext(os.path.basename(sys.argv[0]))[0], error, "pip install torch")


def arguments(description, batch):
    """`batch`: samples of a step without flags."""
    parser = step_report.arguments(description, ["eager", "compiled"], precisions=["bf16"])
    parser.add_argument("--batch", type=int, default=batch)
    return parser


def begin(options):
    """Before the model is made; gives the bytes that were resident then."""
    base_bytes = step_report.resident_bytes()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    return base_bytes


def compiled(model, options):
    return torch.compile(model) if options.mode == "compiled" else model


def step_of(forward, batches, optimizers, options):
    """A function that takes a step on the next of the batches, in turn, and gives its loss. `forward` is of a batch's
    tensors. Products and attention are in --precision, by autocast; gradients come back in f32 and are not kept."""
    low = torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16")
    done = 0

    def run_step():
        nonlocal done
        batch = batches[done % len(batches)]
        done += 1
        with low:
            loss = forward(*batch)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return run_step


def parameters_of(model):
    return sum(p.numel() for p in model.parameters())


def report(benchmark, size, units, options, base_bytes, model, batches, optimizers, kind=""):
    """Times steps of a model whose forward gives the loss. `kind` tells peers of one mode apart: " dense"."""
    run_step = step_of(compiled(model, options), batches, optimizers, options)
    step_report.report(benchmark, size, units, "torch " + options.mode + kind, torch.__version__, options, run_step,
                       parameters_of(model), base_bytes)
