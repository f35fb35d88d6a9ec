#!/usr/bin/env python3
"""PyTorch as a reference_run: trains the small Wide & Deep model from Sluice's initial values on Sluice's batches and
compares loss and gradient norm of 20 steps.

    ./bazelw run //models/wide_and_deep:reference_run -- --out=/tmp/reference_run
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors
    /tmp/venv/bin/python bench/peers/wide_and_deep_torch.py /tmp/reference_run
    /tmp/venv/bin/python bench/peers/wide_and_deep_torch.py /tmp/reference_run \\
        --record models/wide_and_deep/testdata/reference_run.json

--record writes the figures that //models/wide_and_deep:reference_run_test compares with. The model is written with
PyTorch's own functions, not after Sluice's code: embedding with sparse gradients, linear, binary cross entropy with
logits, torch.optim.AdamW and SparseAdam; FTRL, which PyTorch lacks, after its paper (McMahan et al. 2013).
"""

import sys

import reference_run

import torch
import torch.nn.functional as F

TABLES = ("small", "large", "tiny")


class Ftrl:
    """Of rows that have a gradient, all of a tensor that is dense."""

    def __init__(self, parameters, l1, l2, beta):
        self.states = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
        self.l1, self.l2, self.beta = l1, l2, beta

    @torch.no_grad()
    def step(self, rate):
        for p, z, n in self.states:
            rows = slice(None)
            gradient = p.grad
            if gradient.is_sparse:
                rows, gradient = gradient.coalesce().indices()[0], gradient.coalesce().values()
            grown = n[rows] + gradient ** 2
            z[rows] += gradient - (grown.sqrt() - n[rows].sqrt()) / rate * p[rows]
            n[rows] = grown
            slope = (self.beta + grown.sqrt()) / rate + self.l2
            p[rows] = -(z[rows] - torch.sign(z[rows]) * self.l1) / slope * (z[rows].abs() > self.l1)


def loss_of(tensors, sample):
    def rows(name, field):
        return F.embedding(sample[field].long(), tensors[name + "/table"], sparse=True)

    def linear(name, x):
        return F.linear(x, tensors[name + "/weight"].t(), tensors[name + "/bias"])

    wide = rows("wide", "wide").sum(1) + linear("wide/numbers", sample["numbers"])
    x = torch.cat([rows("deep/" + table, table).flatten(1) for table in TABLES] + [sample["numbers"]], 1)
    layer = 0
    while "deep/h%d/weight" % layer in tensors:
        x = F.relu(linear("deep/h%d" % layer, x))
        layer += 1
    return F.binary_cross_entropy_with_logits((wide + linear("deep/out", x))[:, 0], sample["label"])


def clip(parameters, most):
    gradients = []
    for p in parameters:
        if p.grad.is_sparse:
            p.grad = p.grad.coalesce()  # repeated rows are added up before they are squared
        gradients.append(p.grad.values() if p.grad.is_sparse else p.grad)
    norm = torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt()
    factor = min(1.0, most / (norm.item() + 1e-6))
    for p in parameters:
        p.grad = p.grad * factor
    return norm.item()


def train(tensors, batches, options):
    number = {name: float(value) for name, value in options.items() if name not in ("batches_digest", "initial_digest")}
    tensors = {name: value.requires_grad_(True) for name, value in tensors.items()}
    wide = [p for name, p in tensors.items() if name.startswith("wide/")]
    tables = [tensors["deep/%s/table" % table] for table in TABLES]
    dense = [p for name, p in tensors.items() if name.startswith("deep/") and not name.endswith("/table")]
    betas, epsilon = (number["beta1"], number["beta2"]), number["epsilon"]
    ftrl = Ftrl(wide, number["l1"], number["l2"], number["beta"])
    optimizers = [torch.optim.AdamW(dense, betas=betas, eps=epsilon, weight_decay=0),
                  torch.optim.SparseAdam(tables, betas=betas, eps=epsilon)]
    losses, norms = [], []
    for step, rate in enumerate(batches["learning_rate"].tolist()):
        for p in tensors.values():
            p.grad = None
        loss = loss_of(tensors, {name: values[step] for name, values in batches.items()})
        loss.backward()
        norms.append(clip(list(tensors.values()), number["clip"]))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        ftrl.step(rate * number["wide_rate"])
        losses.append(loss.item())
    return losses, norms


if __name__ == "__main__":
    sys.exit(reference_run.main(train))
