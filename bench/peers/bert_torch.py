#!/usr/bin/env python3
"""PyTorch as a reference_run: trains the small BERT from Sluice's initial values on Sluice's batches and compares loss
and gradient norm of 20 steps.

    ./bazelw run //models/bert:reference_run -- --out=/tmp/reference_run
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors
    /tmp/venv/bin/python bench/peers/bert_torch.py /tmp/reference_run
    /tmp/venv/bin/python bench/peers/bert_torch.py /tmp/reference_run --record models/bert/testdata/reference_run.json

--record writes the figures that //models/bert:reference_run_test compares with. The model is written with PyTorch's own
functions, not after Sluice's code: embedding, layer_norm, linear, scaled_dot_product_attention with a mask of the keys,
erf gelu, cross entropy, clip_grad_norm_ and torch.optim.AdamW.
"""

import sys

import reference_run

import torch
import torch.nn.functional as F


class Bert:
    """Over parameters under the names of a Sluice checkpoint; weights are [in, out]."""

    def __init__(self, parameters, layers, heads):
        self.parameters, self.layers, self.heads = parameters, layers, heads

    def linear(self, name, x):
        return F.linear(x, self.parameters[name + "/weight"].t(), self.parameters[name + "/bias"])

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.parameters[name + "/gamma"],
                            self.parameters[name + "/beta"], eps=1e-12)

    def attention(self, name, x, seen):
        batch, length, width = x.shape
        q, k, v = (self.linear(name + "/" + part, x).view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in "qkv")
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None, :])
        return self.linear(name + "/out", y.transpose(1, 2).reshape(batch, length, width))

    def hidden(self, tokens, segments, lengths):
        seen = torch.arange(tokens.shape[1])[None, :] < lengths[:, None]
        x = (F.embedding(tokens, self.parameters["embedding/table"])
             + self.parameters["embedding/positions/table"]
             + F.embedding(segments, self.parameters["embedding/segments/table"]))
        x = self.norm("embedding/norm", x)
        for i in range(self.layers):
            block = "h%d/" % i
            x = self.norm(block + "norm1", x + self.attention(block + "attn", x, seen))
            y = self.linear(block + "mlp/down", F.gelu(self.linear(block + "mlp/up", x)))
            x = self.norm(block + "norm2", x + y)
        return x

    def pooled(self, sample):
        x = self.hidden(sample["tokens"].long(), sample["segments"].long(), sample["length"].long())
        return torch.tanh(self.linear("pooler", x[:, 0]))

    def heads_of(self, sample):
        """The mean loss of all masked words, and the logits of next sentences."""
        x = self.hidden(sample["tokens"].long(), sample["segments"].long(), sample["length"].long())
        positions = sample["positions"].long()
        words = x.gather(1, positions[:, :, None].expand(-1, -1, x.shape[2]))
        words = self.norm("masked/norm", F.gelu(self.linear("masked/transform", words)))
        logits = F.linear(words, self.parameters["embedding/table"], self.parameters["masked/bias"])
        losses = F.cross_entropy(logits.flatten(0, 1), sample["labels"].long().flatten(), reduction="none")
        masked = (losses.view(positions.shape) * sample["weights"]).sum() / sample["weights"].sum()
        pooled = torch.tanh(self.linear("pooler", x[:, 0]))
        return masked, self.linear("next_sentence", pooled)

    def loss(self, sample):
        masked, next_logits = self.heads_of(sample)
        return masked + F.cross_entropy(next_logits, sample["next"].long())


def train(tensors, batches, options):
    parameters = {name: value.requires_grad_(True) for name, value in tensors.items()}
    model = Bert(parameters, int(options["layers"]), int(options["heads"]))
    return reference_run.train_adamw(parameters, batches, options, model.loss)


def evaluate(name, tensors, held_out, options):
    """Of "words" the mean over all masked words and the share of right next sentences; of "classes" means over texts."""
    model = Bert(tensors, int(options["layers"]), int(options["heads"]))
    fields = {key: value.double() if value.is_floating_point() else value.long() for key, value in held_out.items()}
    if name == "classes":
        logits = model.linear("classifier", model.pooled(fields))
        return {"loss": F.cross_entropy(logits, fields["label"]).item(),
                "accuracy": (logits.argmax(1) == fields["label"]).double().mean().item()}
    masked, next_logits = model.heads_of(fields)
    return {"masked_loss": masked.item(),
            "next_accuracy": (next_logits.argmax(1) == fields["next"]).double().mean().item()}


if __name__ == "__main__":
    sys.exit(reference_run.main(train, evaluate))
