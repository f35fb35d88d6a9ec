#!/usr/bin/env python3
"""PyTorch as a reference_run: trains the small ResNet-50 from Sluice's initial values on Sluice's batches and compares
loss and gradient norm of 20 steps.

    ./bazelw run //models/resnet:reference_run -- --out=/tmp/reference_run
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors
    /tmp/venv/bin/python bench/peers/resnet_torch.py /tmp/reference_run
    /tmp/venv/bin/python bench/peers/resnet_torch.py /tmp/reference_run --record models/resnet/testdata/reference_run.json

--record writes the figures that //models/resnet:reference_run_test compares with. The model is written with PyTorch's own
functions, not after Sluice's code: conv2d, batch_norm, max_pool2d, cross entropy and torch.optim.SGD.
"""

import math
import sys

import reference_run

import torch
import torch.nn.functional as F

MEAN, STDDEV = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ResNet:
    """Over tensors under the names of a Sluice checkpoint, whose blocks there are; kernels are [height, width, in, out].
    A stem of 3x3 has neither stride nor pool."""

    def __init__(self, tensors, training=True):
        self.tensors = tensors
        self.training = training

    def convolution_norm(self, name, x, stride=1):
        weight = self.tensors[name + "/conv/weight"].permute(3, 2, 0, 1)
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)
        of = {part: self.tensors["%s/norm/%s" % (name, part)]
              for part in ("running_mean", "running_variance", "gamma", "beta")}
        return F.batch_norm(x, of["running_mean"], of["running_variance"], of["gamma"], of["beta"],
                            training=self.training)

    def block(self, name, x, stride):
        if name + "/3/conv/weight" in self.tensors:
            y = F.relu(self.convolution_norm(name + "/1", x))
            y = F.relu(self.convolution_norm(name + "/2", y, stride))
            y = self.convolution_norm(name + "/3", y)
        else:
            y = F.relu(self.convolution_norm(name + "/1", x, stride))
            y = self.convolution_norm(name + "/2", y)
        if name + "/shortcut/conv/weight" in self.tensors:
            x = self.convolution_norm(name + "/shortcut", x, stride)
        return F.relu(x + y)

    def logits(self, images, mean=MEAN, stddev=STDDEV):
        x = images.permute(0, 3, 1, 2) / 255
        mean, stddev = (torch.tensor(of, dtype=x.dtype).view(-1, 1, 1) for of in (mean, stddev))
        x = (x - mean) / stddev
        if self.tensors["stem/conv/weight"].shape[0] == 3:
            x = F.relu(self.convolution_norm("stem", x))
        else:
            x = F.max_pool2d(F.relu(self.convolution_norm("stem", x, 2)), 3, 2, 1)
        for stage in range(4):
            i = 0
            while "stage%d_%d/1/conv/weight" % (stage + 1, i) in self.tensors:
                x = self.block("stage%d_%d" % (stage + 1, i), x, 2 if stage > 0 and i == 0 else 1)
                i += 1
        return F.linear(x.mean((2, 3)), self.tensors["classes/weight"].t(), self.tensors["classes/bias"])


def train(tensors, batches, options):
    parameters = [value.requires_grad_(True) for name, value in tensors.items() if "running_" not in name]
    model = ResNet(tensors)
    decayed = float(options["weight_decay"])
    optimizer = torch.optim.SGD(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decayed},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=1.0, momentum=float(options["momentum"]), nesterov=True)
    losses, norms = [], []
    for images, labels, rate in zip(batches["images"].float(), batches["labels"].long(),
                                    batches["learning_rate"].tolist()):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = F.cross_entropy(model.logits(images), labels, label_smoothing=float(options["label_smoothing"]))
        loss.backward()
        norms.append(math.sqrt(sum(p.grad.double().square().sum().item() for p in parameters)))
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def evaluate(name, tensors, held_out, options):
    """By the running statistics, as model.eval() has it."""
    logits = ResNet(tensors, training=False).logits(held_out["images"].double())
    labels = held_out["labels"].long()
    best = logits.topk(5, 1).indices == labels[:, None]
    return {"loss": F.cross_entropy(logits, labels).item(), "accuracy": best[:, :1].double().sum(1).mean().item(),
            "top5": best.double().sum(1).mean().item()}


if __name__ == "__main__":
    sys.exit(reference_run.main(train, evaluate))
