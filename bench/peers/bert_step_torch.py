#!/usr/bin/env python3
"""Times the step of bench/bert_step.cc (--size=base) in PyTorch, eager or compiled, as fast as we know how to ask it.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/peers/bert_step_torch.py --mode=eager --threads=2 --precision=bf16

Fused AdamW, scaled_dot_product_attention without a mask, as no sample is padded, q, k and v in one product, flash
denormals, no gradients kept between steps.
"""

import sys

import torch_step  # says so where PyTorch is missing

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, HIDDEN, LENGTH, VOCABULARY, PREDICTIONS = 12, 12, 768, 128, 30522, 20


def norm():
    return nn.LayerNorm(HIDDEN, eps=1e-12)


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.norm1, self.norm2 = norm(), norm()

    def forward(self, x):
        q, k, v = (part.view(len(x), LENGTH, HEADS, -1).transpose(1, 2) for part in self.qkv(x).split(HIDDEN, dim=2))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):

    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(LENGTH, HIDDEN)
        self.segments, self.norm = nn.Embedding(2, HIDDEN), norm()
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.transform, self.masked_norm = nn.Linear(HIDDEN, HIDDEN), norm()
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))
        self.pooler, self.next = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 2)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, segments, positions, labels, following):
        x = self.blocks(self.norm(self.words(tokens) + self.positions.weight + self.segments(segments)))
        words = x.gather(1, positions[:, :, None].expand(-1, -1, HIDDEN))
        words = self.masked_norm(F.gelu(self.transform(words)))
        masked = F.cross_entropy(F.linear(words, self.words.weight, self.bias).flatten(0, 1), labels.flatten())
        return masked + F.cross_entropy(self.next(torch.tanh(self.pooler(x[:, 0]))), following)


def main():
    options = torch_step.arguments(__doc__.splitlines()[0], batch=8).parse_args()
    base_bytes = torch_step.begin(options)
    model = Bert()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, fused=True)
    count = options.batch
    tokens = (torch.arange(count * LENGTH) * 7919 % VOCABULARY).view(count, LENGTH)
    segments = (torch.arange(LENGTH) >= LENGTH // 2).long().expand(count, -1).contiguous()
    positions = (torch.arange(PREDICTIONS) * LENGTH // PREDICTIONS).expand(count, -1).contiguous()
    labels = ((torch.arange(count * PREDICTIONS) + 1) * 7919 % VOCABULARY).view(count, PREDICTIONS)
    following = torch.arange(count) % 2
    torch_step.report("bert_step", "bert_base", ("tokens", count * LENGTH), options, base_bytes, model,
                      [(tokens, segments, positions, labels, following)], [optimizer])
    return 0


if __name__ == "__main__":
    sys.exit(main())
