#!/usr/bin/env python3
"""PyTorch as a reference_run: trains the small IR-ResNet-18 with ArcFace's margin from Sluice's initial values on Sluice's
batches and compares loss and gradient norm of 20 steps.

    ./bazelw run //models/insightface:reference_run -- --out=/tmp/reference_run
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors
    /tmp/venv/bin/python bench/peers/insightface_torch.py /tmp/reference_run
    /tmp/venv/bin/python bench/peers/insightface_torch.py /tmp/reference_run \\
        --record models/insightface/testdata/reference_run.json

--record writes the figures that //models/insightface:reference_run_test compares with. The model is written with PyTorch's
own functions, not after Sluice's code: conv2d, batch_norm, prelu, linear, normalize, cross entropy and torch.optim.SGD; the
margin is InsightFace's, with the gradient that autograd finds.
"""

import math
import sys

import reference_run

import torch
import torch.nn.functional as F

BLOCKS = (2, 2, 2, 2)


class IrResNet18:
    """Over tensors under the names of a Sluice checkpoint; kernels are [height, width, in, out]."""

    def __init__(self, tensors):
        self.tensors = tensors

    def convolution(self, name, x, stride=1):
        weight = self.tensors[name + "/weight"].permute(3, 2, 0, 1)
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    def norm(self, name, x):
        of = {part: self.tensors["%s/%s" % (name, part)] for part in ("running_mean", "running_variance", "beta")}
        return F.batch_norm(x, of["running_mean"], of["running_variance"], self.tensors.get(name + "/gamma"), of["beta"],
                            training=True)

    def block(self, name, x, stride):
        y = self.convolution(name + "/conv1", self.norm(name + "/norm1", x))
        y = F.prelu(self.norm(name + "/norm2", y), self.tensors[name + "/relu/slope"])
        y = self.norm(name + "/norm3", self.convolution(name + "/conv2", y, stride))
        if stride > 1:
            x = self.norm(name + "/shortcut_norm", self.convolution(name + "/shortcut", x, stride))
        return x + y

    def embedding(self, images):
        x = images.permute(0, 3, 1, 2) / 127.5 - 1
        x = F.prelu(self.norm("stem_norm", self.convolution("stem", x)), self.tensors["stem_relu/slope"])
        for stage, blocks in enumerate(BLOCKS):
            for i in range(blocks):
                x = self.block("stage%d_%d" % (stage + 1, i), x, 2 if i == 0 else 1)
        x = self.norm("norm", x).permute(0, 2, 3, 1).flatten(1)
        return self.norm("embedding_norm", F.linear(x, self.tensors["embedding/weight"].t(), self.tensors["embedding/bias"]))

    def cosines(self, images):
        return F.linear(F.normalize(self.embedding(images)), F.normalize(self.tensors["classes/weight"]))


def arc_face(cosines, labels, margin, scale):
    """The monotone form: past pi the cosine less margin sin(margin)."""
    of_label = cosines.gather(1, labels[:, None])
    sine = (1 - of_label.square()).sqrt()
    moved = torch.where(of_label > -math.cos(margin), of_label * math.cos(margin) - sine * math.sin(margin),
                        of_label - math.sin(margin) * margin)
    return scale * cosines.scatter(1, labels[:, None], moved)


def train(tensors, batches, options):
    parameters = [value.requires_grad_(True) for name, value in tensors.items() if "running_" not in name]
    model = IrResNet18(tensors)
    decayed = float(options["weight_decay"])
    optimizer = torch.optim.SGD(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decayed},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=1.0, momentum=float(options["momentum"]))
    losses, norms = [], []
    for images, labels, rate in zip(batches["images"].float(), batches["labels"].long(),
                                    batches["learning_rate"].tolist(), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        logits = arc_face(model.cosines(images), labels, float(options["margin"]), float(options["margin_scale"]))
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        norms.append(math.sqrt(sum(p.grad.double().square().sum().item() for p in parameters)))
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


if __name__ == "__main__":
    sys.exit(reference_run.main(train))
