#!/usr/bin/env python3
"""Times the step of bench/arcface_step.cc in PyTorch, eager or compiled, as fast as we know how to ask it.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/peers/arcface_step_torch.py --mode=compiled --threads=2

Features of 512 elements, a linear layer, and a softmax with ArcFace's margin over the cosines to 100,000 classes; fused
SGD with momentum.
"""

import math
import sys

import torch_step  # says so where PyTorch is missing

import torch
import torch.nn as nn
import torch.nn.functional as F

MARGIN, SCALE = 0.5, 64.0


class ArcFace(nn.Module):

    def __init__(self, width, classes):
        super().__init__()
        self.embedding = nn.Linear(width, width)
        self.classes = nn.Parameter(torch.randn(classes, width) * 0.01)

    def forward(self, features, labels):
        cosines = F.linear(F.normalize(self.embedding(features)), F.normalize(self.classes)).float()
        of_label = cosines.gather(1, labels[:, None])
        sine = (1 - of_label.square()).clamp_min(1e-12).sqrt()
        moved = torch.where(of_label > -math.cos(MARGIN), of_label * math.cos(MARGIN) - sine * math.sin(MARGIN),
                            of_label - math.sin(MARGIN) * MARGIN)
        return F.cross_entropy(cosines.scatter(1, labels[:, None], moved).mul_(SCALE), labels)


def main():
    parser = torch_step.arguments(__doc__.splitlines()[0], batch=128)
    parser.add_argument("--classes", type=int, default=100000)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    base_bytes = torch_step.begin(options)
    model = ArcFace(options.width, options.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    features = torch.randn(options.batch, options.width)
    labels = torch.randint(options.classes, (options.batch,))
    torch_step.report("arcface_step", "classes%d" % options.classes, ("samples", options.batch), options, base_bytes,
                      model, [(features, labels)], [optimizer])
    return 0


if __name__ == "__main__":
    sys.exit(main())
