#!/usr/bin/env python3
"""PyTorch as a reference_run: trains the tiny GPT from Sluice's initial values on Sluice's batches and
compares loss and gradient norm of 20 steps.

    ./bazelw run //models/gpt:reference_run -- --out=/tmp/reference_run
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors
    /tmp/venv/bin/python bench/peers/gpt_torch.py /tmp/reference_run
    /tmp/venv/bin/python bench/peers/gpt_torch.py /tmp/reference_run --record models/gpt/testdata/reference_run.json

--record writes the figures that //models/gpt:reference_run_test compares with. The model is written with
PyTorch's own functions, not after Sluice's code: layer norm, linear, scaled_dot_product_attention,
tanh gelu, cross entropy, clip_grad_norm_ and torch.optim.AdamW.
"""

import math
import sys

import reference_run

import torch
import torch.nn.functional as F


class Gpt:
    """GPT-2's blocks over parameters under the names of a Sluice checkpoint; weights are [in, out]."""

    def __init__(self, parameters, layers, heads):
        self.parameters, self.layers, self.heads = parameters, layers, heads

    def linear(self, name, x):
        return F.linear(x, self.parameters[name + "/weight"].t(), self.parameters[name + "/bias"])

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.parameters[name + "/gamma"],
                            self.parameters[name + "/beta"], eps=1e-5)

    def attention(self, name, x):
        batch, length, width = x.shape
        q, k, v = (self.linear(name + "/" + part, x).view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in "qkv")
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(name + "/out", y.transpose(1, 2).reshape(batch, length, width))

    def mlp(self, name, x):
        return self.linear(name + "/down", F.gelu(self.linear(name + "/up", x), approximate="tanh"))

    def logits(self, tokens):
        table = self.parameters["embedding/table"]
        x = F.embedding(tokens, table) + self.parameters["positions/table"][: tokens.shape[1]]
        for i in range(self.layers):
            x = x + self.attention("h%d/attn" % i, self.norm("h%d/norm1" % i, x))
            x = x + self.mlp("h%d/mlp" % i, self.norm("h%d/norm2" % i, x))
        return F.linear(self.norm("norm", x), table)


def train(tensors, batches, options):
    parameters = {name: value.requires_grad_(True) for name, value in tensors.items()}
    model = Gpt(parameters, int(options["layers"]), int(options["heads"]))

    def loss(batch):
        return F.cross_entropy(model.logits(batch["tokens"].long()).flatten(0, 1), batch["labels"].long().flatten())

    return reference_run.train_adamw(parameters, batches, options, loss)


def evaluate(name, tensors, held_out, options):
    """The mean over all tokens that are predicted, and in bits a byte."""
    model = Gpt(tensors, int(options["layers"]), int(options["heads"]))
    labels, weights = held_out["labels"].long(), held_out["weights"].double()
    losses = F.cross_entropy(model.logits(held_out["tokens"].long()).flatten(0, 1), labels.flatten(), reduction="none")
    loss = ((losses * weights.flatten()).sum() / weights.sum()).item()
    return {"loss": loss, "bits_per_byte": loss / math.log(2) / float(options["bytes_per_token"])}


if __name__ == "__main__":
    sys.exit(reference_run.main(train, evaluate))
