#!/usr/bin/env python3
"""torchvision as a reference_run of //models/resnet:export and :import.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch torchvision safetensors
    /tmp/venv/bin/python bench/peers/resnet_torchvision.py compare FOLDER CHECKPOINT
    /tmp/venv/bin/python bench/peers/resnet_torchvision.py golden models/resnet/testdata/torchvision [WIDTH]

compare: FOLDER is what export made of CHECKPOINT. torchvision's model of that depth must find every tensor in it and no
other, and its logits are compared with those that resnet_torch.py's functions compute from the checkpoint itself.
golden: writes small models of torchvision's own making, of WIDTH channels in the place of 64, with pictures and the logits
that it gives them, which //models/resnet:export_test imports, runs and exports again.
"""

import copy
import os
import sys

try:
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
except ImportError as error:
    sys.exit("resnet_torchvision: the peer is missing (%s): pip install torch torchvision safetensors" % error)

from torch import nn

BOUND = 1e-5  # of the largest logit
# Of blocks in the four stages, and whether they are bottlenecks.
MODELS = {((2, 2, 2, 2), False): "resnet18", ((3, 4, 6, 3), False): "resnet34",
          ((3, 4, 6, 3), True): "resnet50", ((3, 4, 23, 3), True): "resnet101"}
# Of a channel's values in [0, 1], by the number of channels, as models/resnet has them.
STATISTICS = {1: ([0.2860], [0.3530]), 3: ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}


def model_of(name, width, classes, channels, small):
    """torchvision's model with other numbers of channels: the code is torchvision's, the layers are narrowed."""
    model = getattr(torchvision.models, name)(weights=None)
    for parent in list(model.modules()):
        for key, layer in list(parent.named_children()):
            if layer is model.conv1:
                continue
            if isinstance(layer, nn.Conv2d):
                narrow = nn.Conv2d(layer.in_channels * width // 64, layer.out_channels * width // 64, layer.kernel_size,
                                   layer.stride, layer.padding, bias=False)
            elif isinstance(layer, nn.BatchNorm2d):
                narrow = nn.BatchNorm2d(layer.num_features * width // 64)
            elif isinstance(layer, nn.Linear):
                narrow = nn.Linear(layer.in_features * width // 64, classes)
            else:
                continue
            setattr(parent, key, narrow)
    model.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False) if small else \
        nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
    if small:
        model.maxpool = nn.Identity()
    return model


def model_for(tensors):
    """The model that a state_dict is of."""
    blocks = tuple(len({key.split(".")[1] for key in tensors if key.startswith("layer%d." % stage)})
                   for stage in range(1, 5))
    name = MODELS[blocks, "layer1.0.conv3.weight" in tensors]
    width, channels, kernel, _ = tensors["conv1.weight"].shape
    return name, model_of(name, width, len(tensors["fc.bias"]), channels, kernel == 3)


def pictures(channels, size, batch=2):
    return torch.randint(256, (batch, size, size, channels), dtype=torch.uint8,
                         generator=torch.Generator().manual_seed(1))


def normalized(images):
    mean, stddev = (torch.tensor(values).view(-1, 1, 1) for values in STATISTICS[images.shape[3]])
    return (images.permute(0, 3, 1, 2) / 255 - mean) / stddev


def compare(folder, checkpoint):
    from resnet_torch import ResNet

    exported = load_file(os.path.join(folder, "model.safetensors"))
    name, model = model_for(exported)
    model.load_state_dict(exported, strict=True)
    small, channels = exported["conv1.weight"].shape[2] == 3, exported["conv1.weight"].shape[1]
    images = pictures(channels, 32 if small else 224)
    with torch.no_grad():
        theirs = model.eval()(normalized(images))
        ours = ResNet(load_file(os.path.join(checkpoint, "tensors.safetensors")), training=False).logits(
            images, *STATISTICS[channels])
    off = ((theirs - ours).abs().max() / theirs.abs().max()).item()
    print("torchvision %s, %s of %d classes: logits differ by at most %.1e of the largest, %.2g: %s" %
          (torchvision.__version__, name, theirs.shape[1], off, theirs.abs().max().item(),
           "same" if off <= BOUND else "DIFFERENT"))
    return 0 if off <= BOUND else 1


def golden(folder, width=2):
    torch.manual_seed(1)
    for name, channels, small, size in (("resnet18", 1, True, 28), ("resnet50", 3, False, 64)):
        model = model_of(name, int(width), 10, channels, small)
        images = pictures(channels, size, 16)
        with torch.no_grad():
            for parameter in model.parameters():  # norms too: nothing is 0 or 1
                parameter.add_(0.1 * torch.randn_like(parameter))
            # A branch adds little to its shortcut, as where training begins: else what fifty layers make of rounding is
            # 1e-4 of the logits, in torch itself.
            for block in model.modules():
                if hasattr(block, "downsample"):
                    (block.bn3 if hasattr(block, "bn3") else block.bn2).weight.mul_(0.25)
            for _ in range(60):
                model(normalized(images))  # running statistics come near those of the pictures
            images = images[:2].clone()
            logits = copy.deepcopy(model).double().eval()(normalized(images).double()).float()
        save_file(model.state_dict(), os.path.join(folder, name + ".safetensors"), {"format": "pt"})
        save_file({"images": images, "logits": logits},
                  os.path.join(folder, name + "_logits.safetensors"))
        for file in (name, name + "_logits"):  # which are written for their owner alone
            os.chmod(os.path.join(folder, file + ".safetensors"), 0o644)
        print("torchvision %s wrote %s, largest logit %.2g" % (torchvision.__version__, name, logits.abs().max().item()))
    return 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        return compare(*sys.argv[2:])
    if len(sys.argv) in (3, 4) and sys.argv[1] == "golden":
        return golden(*sys.argv[2:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
