"""Writes cased/ and gpt2/ next to this file: tokenizers as transformers 5.24.0 saves them, and their tokens of awkward text.

  python3 hub_tokenizers.py        with transformers and torch (pip install transformers torch)
"""

import json
import os
import sys
import tempfile
import unicodedata

import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "data", "testdata"))
from tokenizers_golden import TEXTS, printable_bytes  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["Hello", "hello", "World", "world", "Caf\u00e9", "Cafe", "cafe", "Str", "##a\u00dfe", "the", "##the", "WORDS", "\u4e2d\u6587"]
MERGES = [("t", "h"), ("\u0120", "th"), ("\u0120th", "e"), ("l", "l"), ("e", "r"), ("\u0120", "\u0120"), ("r", "e"), ("n", "n")]


def letters():
    """Each character of the texts that a tokenizer keeps, composed and decomposed, in both cases."""
    found = {c for text in TEXTS for c in unicodedata.normalize("NFD", text) + text + text.lower() + text.upper()}
    return sorted(c for c in found if unicodedata.category(c)[0] not in "CZ" and c != "\ufffd")


def write_json(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(one) for one in value) + "\n]\n")


def write(folder, tokenizer, texts):
    os.makedirs(folder, exist_ok=True)
    tokenizer.save_pretrained(folder)
    write_json(os.path.join(folder, "golden.json"),
               [{"text": text, "ids": tokenizer(text, add_special_tokens=False)["input_ids"]} for text in texts])


def main():
    # Texts that name special tokens are left out: transformers finds those in a text, and here they are text.
    texts = [text for text in TEXTS if "[CLS]" not in text]
    pieces = SPECIAL + list(dict.fromkeys(WORDS + [prefix + c for c in letters() for prefix in ("", "##")]))
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(pieces) + "\n")
        cased = transformers.BertTokenizer.from_pretrained(folder, do_lower_case=False)
    write(os.path.join(HERE, "cased"), cased, texts)
    tokens = [*printable_bytes().values(), *(a + b for a, b in MERGES), "<|endoftext|>"]
    gpt2 = transformers.GPT2Tokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=MERGES)
    write(os.path.join(HERE, "gpt2"), gpt2, texts[:30])


if __name__ == "__main__":
    main()
