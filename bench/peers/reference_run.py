"""What the scripts share that repeat a reference_run of Sluice in PyTorch: reading it, comparing each step's loss and
gradient norm, and writing the record that the model's reference_run_test compares with."""

import argparse
import datetime
import json
import math
import os
import sys

try:
    import torch
    from safetensors.torch import load_file
except ImportError as error:
    sys.exit("%s: the peer is missing (%s): pip install torch safetensors" % (os.path.basename(sys.argv[0]), error))

BOUND = 1e-4  # relative


def difference(expected, got):
    value = abs(got - expected) / abs(expected)
    return math.inf if math.isnan(value) else value


def compare(losses, norms, ours):
    """Prints both, a step a line; the largest relative difference."""
    worst = 0.0
    print("step   loss: torch      sluice   difference   norm: torch      sluice   difference")
    for step, (loss, norm, our_loss, our_norm) in enumerate(
            zip(losses, norms, ours["losses"], ours["grad_norms"], strict=True)):
        off = difference(loss, our_loss), difference(norm, our_norm)
        worst = max(worst, *off)
        print("%4d  %12.7f%12.7f%13.1e%15.7f%12.7f%13.1e" % (step, loss, our_loss, off[0], norm, our_norm, off[1]))
    print("largest difference %.1e, bound %.0e: %s" % (worst, BOUND, "same" if worst <= BOUND else "DIFFERENT"))
    return worst


def evaluate_all(folder, evaluate):
    """{name: figures} of each held-out set that `folder` has; evaluate(name, tensors, held_out, options) gives metrics by
    name, in double precision, each over all samples at once."""
    evaluations = {}
    for name in sorted(os.listdir(folder)):
        held_out = os.path.join(folder, name, "held_out.safetensors")
        if not os.path.exists(held_out):
            continue
        checkpoint = os.path.join(folder, name, "step-000000")
        with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as file:
            options = json.load(file)["options"]
        tensors = {key: value.double() for key, value in load_file(os.path.join(checkpoint, "tensors.safetensors")).items()}
        fields = load_file(held_out)
        with torch.no_grad():
            figures = evaluate(name, tensors, fields, options)
        evaluations[name] = {"samples": len(next(iter(fields.values()))), **figures}
        print("%s: %s" % (name, evaluations[name]))
    return evaluations


def write_record(path, options, losses, norms, evaluations):
    record = {
        "peer": "torch " + torch.__version__,
        "date": datetime.date.today().isoformat(),
        "batches_digest": options["batches_digest"],
        "initial_digest": options["initial_digest"],
        "losses": [float("%.9g" % x) for x in losses],
        "grad_norms": [float("%.9g" % x) for x in norms],
    }
    if evaluations:
        record["evaluations"] = evaluations
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


def train_adamw(parameters, batches, options, loss_of):
    """Losses and gradient norms, before the clip, of torch.optim.AdamW on each batch; `loss_of` takes its fields by name.
    Matrices alone decay."""
    matrices = [p for p in parameters.values() if p.dim() >= 2]
    others = [p for p in parameters.values() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": float(options["weight_decay"])},
         {"params": others, "weight_decay": 0.0}],
        betas=(float(options["beta1"]), float(options["beta2"])), eps=float(options["epsilon"]))
    losses, norms = [], []
    for step, rate in enumerate(batches["learning_rate"].tolist()):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_of({name: values[step] for name, values in batches.items()})
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), float(options["clip"]))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms


def main(train, evaluate=None):
    """train(tensors, batches, options) -> losses and gradient norms of each step. `tensors` are the initial values under
    Sluice's names, without the optimizer's state. `evaluate` is as evaluate_all wants it."""
    parser = argparse.ArgumentParser(description="Repeats Sluice's reference_run in PyTorch and compares.")
    parser.add_argument("folder", help="what the model's :reference_run wrote")
    parser.add_argument("--record", metavar="FILE", help="write PyTorch's figures here")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    checkpoint = os.path.join(arguments.folder, "step-000000")
    with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as file:
        options = json.load(file)["options"]
    with open(os.path.join(arguments.folder, "sluice.json"), encoding="utf-8") as file:
        ours = json.load(file)
    tensors = {name: value for name, value in load_file(os.path.join(checkpoint, "tensors.safetensors")).items()
               if not name.endswith((".m", ".v", ".momentum", ".sum", ".z", ".n"))}
    batches = load_file(os.path.join(arguments.folder, "batches.safetensors"))
    losses, norms = train(tensors, batches, options)
    worst = compare(losses, norms, ours)
    evaluations = evaluate_all(arguments.folder, evaluate) if evaluate else {}
    if arguments.record and worst <= BOUND:
        write_record(arguments.record, options, losses, norms, evaluations)
    return 0 if worst <= BOUND else 1
