#!/usr/bin/env python3
"""Times the step of bench/wide_and_deep_step.cc in PyTorch, eager or compiled, as fast as we know how to ask it.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/peers/wide_and_deep_step_torch.py --mode=eager --threads=2

One table for all features and one lookup of it, as ours. Gradients of tables are sparse, SparseAdam and Adagrad, or with
--dense dense, AdamW and Adagrad over every row; the MLP's AdamW is the fused one.
"""

import sys

import torch_step  # says so where PyTorch is missing

import torch
import torch.nn as nn
import torch.nn.functional as F

FEATURES, NUMBERS, BATCHES = 26, 13, 8


class WideAndDeep(nn.Module):

    def __init__(self, vocabulary, width, sparse):
        super().__init__()
        self.wide = nn.Embedding(vocabulary, 1, sparse=sparse)
        self.table = nn.Embedding(vocabulary, width, sparse=sparse)
        nn.init.zeros_(self.wide.weight)
        nn.init.normal_(self.table.weight, std=0.05)
        self.numbers = nn.Linear(NUMBERS, 1)
        widths = (FEATURES * width + NUMBERS, 1024, 512, 256)
        layers = []
        for i, o in zip(widths, widths[1:]):
            layers += [nn.Linear(i, o), nn.ReLU(inplace=True)]
        self.deep = nn.Sequential(*layers, nn.Linear(256, 1))

    def forward(self, wide_ids, ids, numbers, label):
        wide = self.wide(wide_ids).sum(1) + self.numbers(numbers)
        deep = self.deep(torch.cat([self.table(ids).flatten(1), numbers], 1))
        return F.binary_cross_entropy_with_logits((wide + deep)[:, 0], label)


def main():
    parser = torch_step.arguments(__doc__.splitlines()[0], batch=4096)
    parser.add_argument("--vocabulary", type=int, default=1000000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--dense", action="store_true", help="gradients of tables are dense")
    options = parser.parse_args()
    base_bytes = torch_step.begin(options)
    model = WideAndDeep(options.vocabulary, options.width, not options.dense)
    mlp = list(model.deep.parameters()) + list(model.numbers.parameters())
    tables = torch.optim.AdamW if options.dense else torch.optim.SparseAdam
    optimizers = [torch.optim.AdamW(mlp, lr=1e-3, fused=True),
                  tables([model.table.weight], lr=1e-3, **({"fused": True} if options.dense else {})),
                  torch.optim.Adagrad([model.wide.weight], lr=1e-2)]
    begins = torch.arange(FEATURES) * (options.vocabulary // FEATURES)
    batches = []
    for _ in range(BATCHES):
        ids = [torch.randint(options.vocabulary // FEATURES, (options.batch, FEATURES)) + begins for _ in range(2)]
        batches.append((*ids, torch.randn(options.batch, NUMBERS), (torch.rand(options.batch) < 0.25).float()))
    torch_step.report("wide_and_deep_step", "vocabulary%d" % options.vocabulary, ("samples", options.batch), options,
                      base_bytes, model, batches, optimizers, " dense" if options.dense else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
