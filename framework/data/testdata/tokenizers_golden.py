"""Writes word_piece/ and byte_pair/ beside this file: what Hugging Face's tokenizers 0.23.3 and tiktoken 0.14 make of awkward text.

  python3 tokenizers_golden.py VOCAB_TXT VOCAB_BPE      of `bazel run //tools:dataset -- fetch wordpiece`, `.. gpt2-bpe`
  python3 tokenizers_golden.py                          the word pieces' goldens alone, of the vocabulary that is there

The vocabularies of the goldens are parts of those, so that they stay small: special pieces, characters, frequent words; the
first 2,000 pairs.
"""

import json
import os
import sys
import unicodedata

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
    return with_letters(kept)


def with_letters(pieces):
    """The pieces and, as the vocabulary is uncased, those that cased text has: capitals, and each character of TEXTS."""
    letters = [chr(c) for c in range(ord("A"), ord("Z") + 1)]
    letters += [c for text in TEXTS for c in text if not c.isascii() and unicodedata.category(c)[0] not in "CZ"]
    letters += [c for letter in letters for c in unicodedata.normalize("NFD", letter.lower())]
    # Hugging Face gives marks that change places the range of their new place, not of the mark in the text.
    letters = [c for c in letters if unicodedata.category(c) != "Mc" or unicodedata.combining(c) == 0]
    return list(dict.fromkeys(pieces + [prefix + letter for letter in letters for prefix in ("", "##")]))


# lower case, stripped accents, split Chinese characters: uncased, cased, and what a tokenizer_config.json may say besides.
NORMALIZATIONS = ((True, True, True), (False, False, True), (True, False, True), (False, True, True), (True, True, False),
                  (False, False, False))


def encode(vocabulary, text, normalization):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    lower, strip, chinese = normalization
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip, handle_chinese_chars=chinese)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    encoded = tokenizer.encode(text, add_special_tokens=False)
    places = [0]  # of each character, in bytes
    for character in text:
        places.append(places[-1] + len(character.encode()))
    return encoded.ids, [[places[begin], places[end]] for begin, end in encoded.offsets]


# For byte pairs alone: white space, contractions, long words.
MORE_TEXTS = (
    "I'm you're we'll they've he'd it's can't 'S 'LL 'tis ''s !'s x's's 9's \u00e9's", "  two   three    four\n\n\nlines \n \t tabs\t\tend  ", " ", "  ", "\n", " \n ",
    "a \u00a0b \u00a0 c\u3000\u3000d\u2028e \x85f \x1cg", "1234567890 12.5 \u0664\u0665 \u00bd\u00b2 3rd x86", "!!!??? ... --- ===>>> _ __ a_b @#$%^&*()",
    "the" * 400, " " * 900 + "x", "\n" * 500, "aaaaaaaa" * 100, "<|endoftext|> is text", "int main() {\n\treturn 0;\n}\n",
)
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def printable_bytes():
    """The character of each byte in the files of GPT-2, in the order of its first 256 tokens."""
    order = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    characters = {byte: chr(byte) for byte in order}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(0x100 + len(characters) - len(order))
    return characters


def write_byte_pair(merges, folder):
    import tiktoken
    lines = open(merges, encoding="utf-8").read().split("\n")[1:2001]
    characters = printable_bytes()
    tokens = [*characters.values(), *(line.replace(" ", "") for line in lines)]
    bytes_of = {character: byte for byte, character in characters.items()}
    ranks = {bytes(bytes_of[character] for character in token): rank for rank, token in enumerate(tokens)}
    encoding = tiktoken.Encoding("golden", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": len(tokens)})
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "encoder.json"), "w", encoding="ascii") as file:
        json.dump({token: rank for rank, token in enumerate([*tokens, "<|endoftext|>"])}, file)
    with open(os.path.join(folder, "vocab.bpe"), "w", encoding="utf-8") as file:
        file.write("\n".join(["#version: 0.2", *lines]) + "\n")
    cases = [{"text": text, "tokens": encoding.encode_ordinary(text)} for text in (*TEXTS, *MORE_TEXTS)]
    with open(os.path.join(folder, "golden.json"), "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def main():
    if len(sys.argv) > 1:
        write_byte_pair(sys.argv[2], os.path.join(HERE, "byte_pair"))
        pieces = part(sys.argv[1])
    else:
        pieces = with_letters(open(os.path.join(HERE, "word_piece", "vocab.txt"), encoding="utf-8").read().splitlines())
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    cases = []
    for text in TEXTS:
        for normalization in NORMALIZATIONS:
            if text.isascii() and normalization not in NORMALIZATIONS[:2]:
                continue
            ids, ranges = encode(vocabulary, text, normalization)
            cases.append({"text": text, "normalization": normalization, "ids": ids, "ranges": ranges})
    os.makedirs(os.path.join(HERE, "word_piece"), exist_ok=True)
    with open(os.path.join(HERE, "word_piece", "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(pieces) + "\n")
    with open(os.path.join(HERE, "word_piece", "golden.json"), "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
