#!/usr/bin/env python3
"""Times the step of bench/resnet_step.cc in PyTorch, eager or compiled, as fast as we know how to ask it.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python bench/peers/resnet_step_torch.py --mode=eager --threads=2 --precision=bf16

Channels last, SGD with momentum, fused where PyTorch fuses it, flash denormals, no gradients kept between steps.
"""

import sys

import torch_step  # says so where PyTorch is missing

import torch
import torch.nn as nn
import torch.nn.functional as F

BLOCKS, SIZE, CLASSES = (3, 4, 6, 3), 224, 1000


def convolution(channels, out, kernel, stride=1):
    return nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.norm1 = convolution(channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = convolution(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        nn.init.zeros_(self.norm3.weight)
        self.shortcut = None
        if stride > 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(convolution(channels, 4 * width, 1, stride), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = F.relu(self.norm2(self.conv2(y)), inplace=True)
        y = self.norm3(self.conv3(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


class ResNet50(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv, self.norm = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)
        blocks, channels = [], 64
        for stage, count in enumerate(BLOCKS):
            for i in range(count):
                blocks.append(Block(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1))
                channels = 4 * (64 << stage)
        self.blocks, self.classes = nn.Sequential(*blocks), nn.Linear(channels, CLASSES)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.norm(self.conv(images)), inplace=True), 3, 2, 1)
        return F.cross_entropy(self.classes(self.blocks(x).mean((2, 3))), labels)


def main():
    options = torch_step.arguments(__doc__.splitlines()[0], batch=8).parse_args()
    base_bytes = torch_step.begin(options)
    model = ResNet50().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    images = torch.randn(options.batch, 3, SIZE, SIZE).to(memory_format=torch.channels_last)
    labels = torch.arange(options.batch) % CLASSES
    torch_step.report("resnet_step", "resnet50", ("images", options.batch), options, base_bytes, model,
                      [(images, labels)], [optimizer])
    return 0


if __name__ == "__main__":
    sys.exit(main())
