"""What the training steps of PyTorch that are timed have in common: flags, threads, device, precision, torch.compile.

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
    add_device(parser)
    return parser


def add_device(parser):
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")


def begin(options):
    """Before the model is made; gives the bytes that were resident then. On a card, f32 is f32, as ours: no TF32."""
    if options.device == "cuda":
        if not torch.cuda.is_available():
            step_report.missing("torch on CUDA", "torch %s sees no GPU" % torch.__version__, "a card, and a driver for it")
        torch.set_default_device("cuda")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    base_bytes = step_report.resident_bytes()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    return base_bytes


def compiled(model, options):
    return torch.compile(model) if options.mode == "compiled" else model


def step_of(forward, batches, optimizers, options):
    """A function that takes a step on the next of the batches, in turn, and gives its loss, on a card that of the step
    before: two are under way, as ours. `forward` is of a batch's tensors. Products and attention are in --precision, by
    autocast; gradients come back in f32 and are not kept."""
    low = torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.precision == "bf16")
    value_of = _LateLoss() if options.device == "cuda" else torch.Tensor.item
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
        return value_of(loss)

    return run_step


class _LateLoss:
    """Gives the loss that it was called with the time before; the first time, that one."""

    def __init__(self):
        self._before = None

    def __call__(self, loss):
        host = torch.empty((), device="cpu", pin_memory=True)
        host.copy_(loss.detach(), non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        (host_before, done_before), self._before = self._before or (host, done), (host, done)
        done_before.synchronize()
        return host_before.item()


def more_of(options):
    """What the line says besides, asked when all steps are done."""
    if options.device == "cpu":
        return {}
    torch.cuda.synchronize()
    return {"card": torch.cuda.get_device_name(0), "device_peak_bytes": torch.cuda.max_memory_reserved(),
            "device_allocated_bytes": torch.cuda.max_memory_allocated()}


def parameters_of(model):
    return sum(p.numel() for p in model.parameters())


def report(benchmark, size, units, options, base_bytes, model, batches, optimizers, kind=""):
    """Times steps of a model whose forward gives the loss. `kind` tells peers of one mode apart: " dense"."""
    run_step = step_of(compiled(model, options), batches, optimizers, options)
    step_report.report(benchmark, size, units, "torch " + options.mode + kind, torch.__version__, options, run_step,
                       parameters_of(model), base_bytes, lambda: more_of(options))
