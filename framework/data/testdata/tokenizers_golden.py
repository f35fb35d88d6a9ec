"""Writes word_piece/golden.json beside this file: what Hugging Face's tokenizers 0.23.3 makes of awkward text.

  python3 tokenizers_golden.py VOCAB_TXT      of `bazel run //tools:dataset -- fetch wordpiece`; needs pip's tokenizers

The vocabulary of the golden is a part of that one, so that it stays small: special pieces, characters, frequent words.
"""

import json
import os
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
# One line a kind of trouble. Where Hugging Face's tables are older than Unicode 15 a character is left out.
TEXTS = (
    "", " \t\r\n", "the", "Hello, World! It's 5 o'clock.", "unaffable unwanted running",
    "Caf\u00e9 na\u00efve \u00c5ngstr\u00f6m \u017bo\u0142\u0105d\u017a Tr\u1eadn \u0130stanbul \u0391\u03a3 \u039f\u0394\u039f\u03a3 Stra\u00dfe \u1e9e",
    "Cafe\u0301 A\u030angstro\u0308m e\u0301\u0301e", "q\u0323\u0307 q\u0307\u0323", "\u0301leading mark", "\u0e40\u0e01\u0e47\u0e1a \u0e04\u0e33",
    "\u4e2d\u6587\u548cEnglish\u6df7\u5408\u3002\u3001\uff0c\u3400\U00020000\U0002b820\uf900\U0002f800", "\u3072\u3089\u304c\u306a\u30ab\u30bf\u30ab\u30ca \uac00\ub098\ub2e4 \u1100\u1161",
    "\U0001f600 a\U0001f468\u200d\U0001f469\u200d\U0001f467b \u2764\ufe0f \U0001f1e9\U0001f1ea", "a\x00b\x01c\x7fd\x85e\ufffdf\u200bg\u00adh\ufeffi\u200ej\ue000k",
    "a\tb\nc\rd\x0be\x0cf\u00a0g\u2003h\u2028i\u2029j\u3000k\u1680l\u202fm\u205fn", "$a+b<c=d>e^f`g|h~i", "\u00a3\u20ac\u00b0\u00a9 \u00abquoted\u00bb \u2014 \u2026 \u00bfqu\u00e9?",
    "\u226e \u2260 \u1fef \u037e \u212a \u2126 \u01c5", "a" * 100, "a" * 101, "\u00e9" * 100 + " " + "\u00e9" * 101, "e\u0301" * 100,
    "a" * 99 + "\u00c4" + "!" + "a" * 101 + ".", "[CLS] the [MASK] [SEP] [UNK] [PAD]", "##the # ## ### the##", "http://example.com/a_b?c=d&e=f#g 3.14159 1,000,000",
    "\U0001d400\U0001d7d8 \u2167 \u00bd \u00b2 \u0664\u0665", "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u064e\u0651\u0629 \u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea \u0939\u093f\u0928\u094d\u0926\u0940",
    "\u302e\u302f a\u302fb\u302e \U0001d165\U0001d16d\U0001d165", "don\u2019t \u2018quote\u2019 \u201cQuote\u201d", "MiXeD CaSe WORDS Running UNWANTED",
)


def part(vocabulary):
    """Special pieces, all single characters, and of the rest each that is frequent or short."""
    lines = open(vocabulary, encoding="utf-8").read().splitlines()
    kept = [line for line in lines if line in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    for number, line in enumerate(lines):
        if line.startswith("[unused") or line in kept:
            continue
        letters = line[2:] if line.startswith("##") and line != "##" else line
        if (len(letters) == 1 and (letters.isascii() or number % 3 == 0)) or number < 2400 or (line != letters and len(letters) == 2):
            kept.append(line)
    # Cased text has letters that this vocabulary, which is uncased, lacks.
    kept += ["Caf", "##\u00e9", "H", "W", "\u00c4", "##\u00c4", "M", "##X", "##D"]
    return list(dict.fromkeys(kept))


def encode(vocabulary, text, uncased):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=uncased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    encoded = tokenizer.encode(text, add_special_tokens=False)
    places = [0]  # of each character, in bytes
    for character in text:
        places.append(places[-1] + len(character.encode()))
    return encoded.ids, [[places[begin], places[end]] for begin, end in encoded.offsets]


def main():
    pieces = part(sys.argv[1])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    cases = []
    for text in TEXTS:
        for uncased in (True, False):
            ids, ranges = encode(vocabulary, text, uncased)
            cases.append({"text": text, "uncased": uncased, "ids": ids, "ranges": ranges})
    os.makedirs(os.path.join(HERE, "word_piece"), exist_ok=True)
    with open(os.path.join(HERE, "word_piece", "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(pieces) + "\n")
    with open(os.path.join(HERE, "word_piece", "golden.json"), "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
