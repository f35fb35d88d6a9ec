#!/usr/bin/env python3
"""Hugging Face's transformers as a peer of //models/bert:export and :import.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors transformers
    /tmp/venv/bin/python bench/peers/bert_transformers.py compare HF_FOLDER CHECKPOINT
    /tmp/venv/bin/python bench/peers/bert_transformers.py golden models/bert/testdata/transformers

compare: HF_FOLDER is what export made of CHECKPOINT. The class that its config.json names must find
every tensor in it and no other, and its tokenizer must read vocab.txt; its matrices must be those of
the checkpoint, transposed. golden: writes two small models of transformers' own making, one with the
heads of pre-training and one with classes, with inputs and the logits that they give in double
precision, which //models/bert:export_test imports, runs and exports again.
"""

import json
import os
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    sys.exit("bert_transformers: the peer is missing (%s): pip install torch safetensors transformers" % error)


def compare(folder, checkpoint):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        (name,) = json.load(file)["architectures"]
    model, loading = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        left = [key for key in loading[kind] if "predictions.decoder" not in str(key)]
        if left:
            sys.exit("bert_transformers: %s: %s" % (kind, ", ".join(map(str, left))))
    ours = load_file(os.path.join(checkpoint, "tensors.safetensors"))
    query = model.bert.encoder.layer[0].attention.self.query.weight
    if not torch.equal(query.detach(), ours["h0/attn/q/weight"].T):
        sys.exit("bert_transformers: h0/attn/q/weight differs")
    pieces = transformers.BertTokenizer.from_pretrained(folder)("the oil price", return_tensors="pt")
    with torch.no_grad():
        outputs = model.eval()(**pieces)
    print("transformers %s: %s opens %s; %d pieces give %s" %
          (transformers.__version__, name, folder, pieces["input_ids"].shape[1],
           ", ".join("%s %s" % (key, list(value.shape)) for key, value in outputs.items())))
    return 0


def save(model, folder, tensors):
    model.float().save_pretrained(folder)
    save_file({key: value.contiguous() for key, value in tensors.items()}, os.path.join(folder, "logits.safetensors"))
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        file.write("".join(piece + "\n" for piece in pieces + ["w%d" % i for i in range(model.config.vocab_size - 5)]))
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)


def shaken(model):
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too: nothing is 0 or 1
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval().double()


def golden(folder):
    torch.manual_seed(1)
    sizes = dict(vocab_size=40, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                 max_position_embeddings=16, initializer_range=0.3)
    length = torch.tensor([12, 7], dtype=torch.int32)
    tokens = torch.randint(5, 40, (2, 12), dtype=torch.int32)
    segments = torch.randint(2, (2, 12), dtype=torch.int32)
    positions = torch.tensor([[1, 5, 11], [0, 3, 6]], dtype=torch.int32)
    seen = dict(input_ids=tokens.long(), token_type_ids=segments.long(),
                attention_mask=(torch.arange(12)[None] < length[:, None]).long())
    inputs = {"tokens": tokens, "segments": segments, "length": length}
    with torch.no_grad():
        model = shaken(transformers.BertForPreTraining(transformers.BertConfig(**sizes)))
        out = model(**seen)
        masked = torch.stack([out.prediction_logits[i][positions[i].long()] for i in range(2)])
        save(model, os.path.join(folder, "pretraining"),
             dict(inputs, positions=positions, masked=masked.float(), next=out.seq_relationship_logits.float()))
        config = transformers.BertConfig(hidden_act="gelu_new", num_labels=3, **sizes)
        model = shaken(transformers.BertForSequenceClassification(config))
        save(model, os.path.join(folder, "classes"), dict(inputs, classes=model(**seen).logits.float()))
    print("transformers %s wrote %s" % (transformers.__version__, folder))
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
