#include "framework/data/token_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two sequences of 3 and 2 tokens of u16, two documents, as Megatron-LM's writer has them.
const std::string kIdx = absl::HexStringToBytes(
    "4d4d494449445800000100000000000000080200000000000000030000000000000003000000020000000000000000"
    "0000"
    "000600000000000000000000000000000001000000000000000200000000000000");
const std::string kBin = absl::HexStringToBytes("01000200ffff00000700");

std::string Path(const std::string& name) {
  const std::string root = ::testing::TempDir() + "/tokens";
  std::filesystem::create_directories(root);
  return root + "/" + name;
}

TEST(TokenFileTest, MegatronIsReadAndWrittenToTheByte) {
  const auto file = ParseMegatron("t.bin", kBin, "t.idx", kIdx);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->tokens, ElementsAre(1, 2, 65535, 0, 7));
  EXPECT_THAT(file->sequences, ElementsAre(0, 3, 5));
  EXPECT_THAT(file->documents, ElementsAre(0, 1, 2));
  EXPECT_THAT(file->modes, ElementsAre());
  const auto bytes = BytesOfTokens(*file, 50257);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->bin, kBin);
  EXPECT_EQ(bytes->idx, kIdx);
  // With modes, and tokens of four bytes.
  TokenFile wide = *file;
  wide.modes = {0, 1};
  wide.tokens[1] = 70000;
  const auto wider = BytesOfTokens(wide, 65500);
  ASSERT_TRUE(wider.ok()) << wider.status();
  EXPECT_EQ(wider->bin.size(), 20);
  EXPECT_EQ(wider->idx.size(), kIdx.size() + 2);
  EXPECT_EQ(wider->idx[17], 4);
  const auto again = ParseMegatron("t.bin", wider->bin, "t.idx", wider->idx);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->tokens, wide.tokens);
  EXPECT_EQ(again->modes, wide.modes);
  EXPECT_EQ(again->sequences, wide.sequences);
}

TEST(TokenFileTest, MegatronHasTokensOfAnyWholeNumbers) {
  const struct {
    char type;
    const char* bin;
  } cases[] = {
      {1, "0102030405"},
      {2, "0102030405"},
      {3, "01000200030004000500"},
      {4, "0100000002000000030000000400000005000000"},
      {5, "01000000000000000200000000000000030000000000000004000000000000000500000000000000"}};
  for (const auto& [type, bin] : cases) {
    std::string idx = kIdx;
    idx[17] = type;
    const std::string bytes = absl::HexStringToBytes(bin);
    idx[34 + 8 + 8] = static_cast<char>(bytes.size() / 5 * 3);
    const auto file = ParseMegatron("t.bin", bytes, "t.idx", idx);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT(file->tokens, ElementsAre(1, 2, 3, 4, 5));
    std::string negative = bytes;
    negative.back() = '\xff';
    if (type != 1) {
      EXPECT_THAT(std::string(ParseMegatron("t.bin", negative, "t.idx", idx).status().message()),
                  HasSubstr(absl::StrCat("t.bin, byte ", bytes.size() / 5 * 4,
                                         ": expected a token from 0")));
    }
  }
}

TEST(TokenFileTest, MegatronMayHoldNothing) {
  std::string idx = kIdx.substr(0, 34) + std::string(8, '\0');
  idx[18] = 0;
  idx[26] = 1;
  const auto file = ParseMegatron("t.bin", "", "t.idx", idx);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->tokens, ElementsAre());
  const auto bytes = BytesOfTokens(*file, 50257);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->idx, idx);
}

// llm.c: 256 numbers of four bytes, then the tokens. nanoGPT: the tokens.
TEST(TokenFileTest, TokensOfTwoBytes) {
  const std::string header =
      absl::HexStringToBytes("88d834010100000005000000") + std::string(1012, '\0');
  for (const bool llm_c : {false, true}) {
    const auto file = ParseTokens("t.bin", llm_c ? header + kBin : kBin);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->format, llm_c ? TokenFormat::kLlmC : TokenFormat::kNanoGpt);
    EXPECT_THAT(file->tokens, ElementsAre(1, 2, 65535, 0, 7));
    EXPECT_THAT(file->sequences, ElementsAre(0, 5));
    EXPECT_THAT(file->documents, ElementsAre(0, 1));
    const auto bytes = BytesOfTokens(*file, 50257);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(bytes->bin, llm_c ? header + kBin : kBin);
    EXPECT_EQ(bytes->idx, "");
  }
}

// More than is read at once.
TEST(TokenFileTest, ManyTokensComeBack) {
  TokenFile file = *ParseTokens("t.bin", kBin);
  file.tokens.resize(200001);
  for (size_t i = 0; i < file.tokens.size(); ++i) file.tokens[i] = static_cast<int32_t>(i % 50021);
  for (const TokenFormat format : {TokenFormat::kNanoGpt, TokenFormat::kLlmC}) {
    file.format = format;
    const std::string path = Path(absl::StrCat("many", static_cast<int>(format), ".bin"));
    ASSERT_TRUE(WriteTokenFile(path, file, 50257).ok());
    const auto again = ReadTokenFile(path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->tokens == file.tokens);
  }
}

TEST(TokenFileTest, FilesComeBack) {
  TokenFile file = *ParseMegatron("t.bin", kBin, "t.idx", kIdx);
  for (const TokenFormat format :
       {TokenFormat::kNanoGpt, TokenFormat::kLlmC, TokenFormat::kMegatron}) {
    file.format = format;
    const std::string path = Path(absl::StrCat("file", static_cast<int>(format), ".bin"));
    ASSERT_TRUE(WriteTokenFile(path, file, 50257).ok());
    const auto again = ReadTokenFile(path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->format, format);
    EXPECT_EQ(again->tokens, file.tokens);
  }
  EXPECT_THAT(std::string(ReadTokenFile("/no/file.bin").status().message()),
              HasSubstr("/no/file.bin"));
  EXPECT_THAT(std::string(WriteTokenFile("/no/file.bin", file, 9).message()),
              HasSubstr("/no/file.bin"));
}

TEST(TokenFileTest, DamageIsNamedWithItsPlace) {
  const auto of_bin = [](const std::string& bin) {
    return std::string(ParseTokens("t.bin", bin).status().message());
  };
  EXPECT_EQ(of_bin("\1\2\3"), "t.bin, byte 3: expected tokens of two bytes, got the end in one");
  const std::string header =
      absl::HexStringToBytes("88d834010100000005000000") + std::string(1012, '\0');
  EXPECT_EQ(of_bin(header.substr(0, 99)),
            "t.bin, byte 99: expected a header of 1024 bytes, got the end");
  EXPECT_EQ(of_bin(header + kBin.substr(2)),
            "t.bin, byte 8: expected the count of the 4 tokens that are there, got 5");
  EXPECT_EQ(of_bin(header.substr(0, 4) + "\2" + header.substr(5)),
            "t.bin, byte 4: expected version 1, got 2");
  const auto changed = [](int64_t at, char to) {
    std::string idx = kIdx;
    idx[at] = to;
    return std::string(ParseMegatron("t.bin", kBin, "t.idx", idx).status().message());
  };
  EXPECT_EQ(changed(0, 'X'), "t.idx, byte 0: expected MMIDIDX and two zeros");
  EXPECT_EQ(changed(9, 2), "t.idx, byte 9: expected version 1, got 2");
  EXPECT_EQ(changed(17, 7), "t.idx, byte 17: expected a type of whole numbers, 1 to 5 or 8, got 7");
  EXPECT_EQ(changed(17, 99),
            "t.idx, byte 17: expected a type of whole numbers, 1 to 5 or 8, got 99");
  EXPECT_EQ(changed(23, 1),
            "t.idx, byte 18: expected as many sequences as 82 bytes can list, got 1099511627778");
  EXPECT_EQ(
      changed(33, 1),
      "t.idx, byte 26: expected as many documents as 82 bytes can list, got 72057594037927939");
  EXPECT_EQ(changed(18, 1),
            "t.idx, byte 70: expected the end at byte 70, or with modes at 71, got it at 82");
  EXPECT_EQ(changed(37, '\xff'), "t.idx, byte 34: expected a length of 0 or more, got -16777213");
  EXPECT_EQ(changed(50, 4),
            "t.idx, byte 50: expected sequence 1 at byte 6, behind the one before, got 4");
  EXPECT_EQ(changed(58, 1), "t.idx, byte 58: expected a document's bound from 0 to 0, got 1");
  EXPECT_EQ(changed(66, 3), "t.idx, byte 66: expected a document's bound from 0 to 2, got 3");
  EXPECT_EQ(changed(73, '\x80'),
            "t.idx, byte 66: expected a document's bound from 0 to 2, got -9223372036854775807");
  EXPECT_EQ(changed(74, 1),
            "t.idx, byte 58: expected bounds of documents that end with sequence 2");
  EXPECT_EQ(changed(38, 3),
            "t.bin, byte 10: expected the end at byte 12 as t.idx says, got it at 10");
  EXPECT_EQ(ParseMegatron("t.bin", kBin, "t.idx", kIdx.substr(0, 20)).status().message(),
            "t.idx, byte 20: expected a header of 34 bytes, got the end");
  EXPECT_FALSE(ParseMegatron("t.bin", kBin, "t.idx", kIdx.substr(0, 81)).ok());
}

// llm.c's Llama 3: another magic, version 7. Without a header the vocabulary says it.
TEST(TokenFileTest, TokensOfFourBytes) {
  const std::string header =
      absl::HexStringToBytes("a1d934010700000003000000") + std::string(1012, '\0');
  const std::string bin = absl::HexStringToBytes("01000000fff40100ffff0000");
  for (const bool llm_c : {false, true}) {
    const auto file = ParseTokens("t.bin", llm_c ? header + bin : bin, 128256);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->format, llm_c ? TokenFormat::kLlmC : TokenFormat::kNanoGpt);
    EXPECT_THAT(file->tokens, ElementsAre(1, 128255, 65535));
    const auto bytes = BytesOfTokens(*file, 128256);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(bytes->bin, llm_c ? header + bin : bin);
  }
  EXPECT_EQ(ParseTokens("t.bin", header.substr(0, 4) + "\1" + header.substr(5) + bin, 128256)
                .status()
                .message(),
            "t.bin, byte 4: expected version 7, got 1");
}

// Of a file without a header: 16 bits for a vocabulary of 65,536, 32 for one more.
TEST(TokenFileTest, TheVocabularySaysHowManyBitsATokenHas) {
  std::string wide, narrow;
  for (uint32_t i = 0; i < 400; ++i) {
    const uint32_t token = i * 2654435761u % 65537;
    wide.append(reinterpret_cast<const char*>(&token), 4);
    narrow.append(reinterpret_cast<const char*>(&token), 2);
  }
  const auto error = [](const std::string& bin, int64_t vocabulary) {
    return std::string(ParseTokens("t.bin", bin, vocabulary).status().message());
  };
  EXPECT_EQ(ParseTokens("t.bin", wide, 65537)->tokens.size(), 400);
  EXPECT_EQ(ParseTokens("t.bin", narrow, 65536)->tokens.size(), 400);
  // Halves are not learned.
  EXPECT_THAT(
      error(wide, 65536),
      HasSubstr("t.bin: expected tokens of 16 bits, as a file without a header has them for "
                "a vocabulary of 65536, got numbers of 32 bits"));
  EXPECT_THAT(error(narrow, 65537), HasSubstr("expected a token of 32 bits below 65537, as such a "
                                              "vocabulary needs them, got "));
  EXPECT_THAT(error(narrow.substr(2), 65537),
              HasSubstr("expected tokens of 32 bits, as a vocabulary of 65537 needs them, got 798 "
                        "bytes, which are no multiple of 4; tokens of 16 bits are those of a "
                        "vocabulary of at most 65,536"));
  // Where nobody knows the vocabulary, the numbers decide.
  EXPECT_EQ(ParseTokens("t.bin", wide)->tokens.size(), 400);
  EXPECT_EQ(ParseTokens("t.bin", narrow)->tokens.size(), 400);
  // A few, or small ones, may be what they are.
  EXPECT_EQ(ParseTokens("t.bin", std::string(400, '\0'), 50257)->tokens.size(), 200);
  EXPECT_EQ(ParseTokens("t.bin", wide.substr(0, 40), 65536)->tokens.size(), 20);
}

TEST(TokenFileTest, ATypeOf16BitsIsNotForALargerVocabulary) {
  const TokenFile file = {TokenFormat::kNpy, {1, 2, 3}, {}, {}, {}};
  for (const TokenFormat format : {TokenFormat::kNpy, TokenFormat::kLlmC}) {
    TokenFile of = file;
    of.format = format;
    const std::string bin = BytesOfTokens(of, 50257)->bin;
    EXPECT_TRUE(ParseTokens("t", bin, 65536).ok());
    EXPECT_EQ(ParseTokens("t", bin, 65537).status().message(),
              "t: expected tokens of 32 bits, as a vocabulary of 65537 needs them, got tokens of "
              "16 bits, which are those of a vocabulary of at most 65,536");
    EXPECT_EQ(ParseTokens("t", BytesOfTokens(of, 65537)->bin, 65537)->tokens, file.tokens);
  }
}

// As numpy.save writes the integers 1, 2 and 70000 of several types.
TEST(TokenFileTest, NpyOfAnyIntegers) {
  const auto npy = [](const char* type, const char* shape, const char* values) {
    std::string header =
        absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
    header.resize(117, ' ');
    return absl::StrCat("\x93NUMPY", absl::string_view("\1\0\x76\0", 4), header, "\n",
                        absl::HexStringToBytes(values));
  };
  const char* const four = "010000000200000070110100";
  for (const char* type : {"<u4", "<i4"}) {
    const auto file = ParseTokens("t", npy(type, "(3,)", four));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->format, TokenFormat::kNpy);
    EXPECT_THAT(file->tokens, ElementsAre(1, 2, 70000));
  }
  EXPECT_THAT(ParseTokens("t", npy("<i8", "(2,)", "01000000000000007011010000000000"))->tokens,
              ElementsAre(1, 70000));
  EXPECT_THAT(ParseTokens("t", npy("|u1", "(3,)", "0102ff"))->tokens, ElementsAre(1, 2, 255));
  const auto error = [](const std::string& bytes) {
    return std::string(ParseTokens("t", bytes).status().message());
  };
  EXPECT_THAT(error(npy("<i8", "(1,)", "ffffffffffffffff")),
              HasSubstr("t, byte 128: expected a token from 0 to 2147483647, got -1"));
  EXPECT_EQ(error(npy("<f4", "(3,)", four)),
            "t: expected tokens, an array of integers in one dimension and little-endian, got f4 "
            "[3]");
  EXPECT_THAT(error(npy("<u4", "(3,1)", four)), HasSubstr("got u4 [3,1]"));
  EXPECT_THAT(error(npy(">u4", "(3,)", four)), HasSubstr("got u4 [3], big-endian"));
  EXPECT_EQ(error(npy("<u4", "(2,)", four)), "t: expected 8 bytes of u4 [2], got 12");
  EXPECT_EQ(error(npy("<u4", "(4,)", four)), "t: expected u4 [4], got 12 bytes of values at most");
}

TEST(TokenFileTest, WhatIsNoTokensIsNamed) {
  const auto error = [](const std::string& name, const std::string& bytes) {
    return std::string(ParseTokens(name, bytes, 50257).status().message());
  };
  EXPECT_EQ(error("t.bin", "some text"), "t.bin: expected tokens, got text");
  EXPECT_THAT(error("t.bin", std::string("PAR1\0\0", 6)),
              HasSubstr("t.bin: expected tokens, got Apache Parquet; "));
  EXPECT_THAT(error("t.npy", std::string("\1\0\2\0", 4)),
              HasSubstr("t.npy: expected a NumPy array, got the bytes 01 00 02 00"));
  // gpt2_124M.bin of llm.c.
  EXPECT_THAT(error("t.bin", absl::HexStringToBytes("c6d7340103000000") + std::string(1100, '\0')),
              HasSubstr("t.bin: expected tokens, got a file of llm.c's with the magic number "
                        "20240326, which has no tokens"));
}

TEST(TokenFileTest, WritesNothingThatWouldNotComeBack) {
  TokenFile file = *ParseTokens("t.bin", kBin);
  file.tokens[3] = 65536;
  EXPECT_EQ(
      BytesOfTokens(file, 65536).status().message(),
      "data: expected tokens from 0 to 65535, which the file has room for, got 65536 at place 3");
  file.format = TokenFormat::kMegatron;
  EXPECT_TRUE(BytesOfTokens(file, 70000).ok());
  file.tokens[3] = -1;
  EXPECT_THAT(std::string(BytesOfTokens(file, 70000).status().message()),
              HasSubstr("got -1 at place 3"));
  file.tokens[3] = 1;
  file.sequences = {0, 3};
  EXPECT_THAT(std::string(BytesOfTokens(file, 9).status().message()),
              HasSubstr("expected sequences of tokens"));
  file.sequences = {0, 3, 5};
  file.documents = {0, 1};
  EXPECT_FALSE(BytesOfTokens(file, 9).ok());
  file.documents = {0, 2};
  file.modes = {1};
  EXPECT_FALSE(BytesOfTokens(file, 9).ok());
  file.modes = {1, 0};
  EXPECT_TRUE(BytesOfTokens(file, 9).ok());
}

}  // namespace
}  // namespace sluice
