#!/usr/bin/env python3
"""Hugging Face's transformers as a reference_run of //models/gpt:export and :import.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors transformers
    /tmp/venv/bin/python bench/peers/gpt2_transformers.py compare HF_FOLDER CHECKPOINT
    /tmp/venv/bin/python bench/peers/gpt2_transformers.py golden models/gpt/testdata/gpt2

compare: HF_FOLDER is what export made of CHECKPOINT. transformers' GPT2LMHeadModel must find every
tensor in it and no other, and its logits are compared with those that gpt_torch.py's model computes
from the checkpoint itself. golden: writes a small model of transformers' own making, with tokens and
the logits that it gives them, which //models/gpt:export_test imports, runs and exports again.
"""

import json
import os
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    sys.exit("gpt2_transformers: the peer is missing (%s): pip install torch safetensors transformers" % error)

BOUND = 1e-5  # of the largest logit


def compare(folder, checkpoint):
    from gpt_torch import Gpt

    model, loading = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        left = [key for key in loading[kind] if key != "lm_head.weight"]
        if left:
            sys.exit("gpt2_transformers: %s: %s" % (kind, ", ".join(map(str, left))))
    config = model.eval().config
    parameters = load_file(os.path.join(checkpoint, "tensors.safetensors"))
    tokens = torch.randint(config.vocab_size, (2, config.n_positions), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = model(tokens).logits
        ours = Gpt(parameters, config.n_layer, config.n_head).logits(tokens)
    off = ((theirs - ours).abs().max() / theirs.abs().max()).item()
    print("transformers %s: logits %s differ by at most %.1e of the largest: %s" %
          (transformers.__version__, list(theirs.shape), off, "same" if off <= BOUND else "DIFFERENT"))
    return 0 if off <= BOUND else 1


def golden(folder):
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=256, n_positions=8, n_embd=8, n_layer=2, n_head=2,
                                     bos_token_id=None, eos_token_id=None, initializer_range=0.3)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too: nothing is 0 or 1
            parameter.add_(0.1 * torch.randn_like(parameter))
        tokens = torch.randint(256, (1, 8), dtype=torch.int32)
        logits = model(tokens.long()).logits
    model.save_pretrained(folder)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    save_file({"tokens": tokens, "logits": logits.contiguous()}, os.path.join(folder, "logits.safetensors"))
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        print("transformers %s wrote %s" % (json.load(file)["transformers_version"], folder))
    return 0


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        return compare(*sys.argv[2:])
    if len(sys.argv) == 3 and sys.argv[1] == "golden":
        return golden(sys.argv[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
