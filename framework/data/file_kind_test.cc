#include "framework/data/file_kind.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/data/framed_records.h"
#include "framework/data/npy.h"
#include "framework/data/pack_testing.h"
#include "framework/data/record_io.h"
#include "framework/data/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string Hex(const char* digits) { return absl::HexStringToBytes(digits); }

// Every character of `text`, which is ASCII, as `size` bytes.
std::string Wide(absl::string_view text, int size, bool big_endian) {
  std::string wide;
  for (const char c : text) {
    std::string unit(size, '\0');
    unit[big_endian ? size - 1 : 0] = c;
    wide += unit;
  }
  return wide;
}

std::string Error(absl::string_view bytes) {
  return std::string(CheckText("a/b", bytes).message());
}

// "some text\n" as Python's bz2, lzma and zipfile pack it, and lz4.
constexpr char kBzip2[] =
    "425a6839314159265359106962f500000351800010400002028c40200022031a84302272d7181e2ee48a70a12020d2"
    "c5"
    "ea";
constexpr char kXz[] =
    "fd377a585a000004e6d6b4460200210116000000742fe5a3010009736f6d6520746578740a0000008041490d11dafe"
    "1b"
    "0001220a151ae1671fb6f37d010000000004595a";
constexpr char kLzma[] = "5d00008000ffffffffffffffff00399bc9f2e750b8c5e25c9da2576effffbfc80000";
constexpr char kZip[] =
    "504b030414000000000000002100bce62c190a0000000a0000000100000061736f6d6520746578740a504b01021403"
    "14"
    "000000000000002100bce62c190a0000000a00000001000000000000000000000080010000000061504b0506000000"
    "00"
    "010001002f000000290000000000";
// The first 100 bytes of a file of Python's sqlite3, and the header of a PNG file.
constexpr char kSqlite[] =
    "53514c69746520666f726d617420330010000101004020200000000100000002000000000000000000000001000000"
    "04"
    "0000000000000000000000010000000000000000000000000000000000000000000000000000000000000000000000"
    "01"
    "002e6301";
constexpr char kPng[] = "89504e470d0a1a0a0000000d4948445200000002000000020802000000fdd49a73";
constexpr char kLz4[] = "04224d186440a70a000080736f6d6520746578740a000000009968a7a8";

TEST(FileKindTest, TextIsText) {
  for (const std::string& text :
       {std::string("text"), std::string("\xc3\x89lan d\xc3\xa9j\xc3\xa0 vu\n"),  // UTF-8
        std::string("\xc9lan d\xe9j\xe0 vu\n"),                                   // Latin-1
        std::string("\xef\xbb\xbf with a mark"), std::string("\x1b[31mred\x1b[0m\n"),
        std::string("page\n\f\npage\n\b"), std::string("%PDF is what others begin with"),
        // A control character now and then, as in old books.
        absl::StrCat(std::string(100, 'x'), "\x1a")}) {
    EXPECT_EQ(RecognizeBytes(text).kind, FileKind::kText) << text;
    EXPECT_TRUE(CheckText("a", text).ok()) << text;
  }
  EXPECT_EQ(RecognizeBytes("").kind, FileKind::kEmpty);
  EXPECT_TRUE(CheckText("a", "").ok());
}

TEST(FileKindTest, BytesOfNoFormatAreNoText) {
  EXPECT_EQ(Error(absl::string_view("text\0text", 9)),
            "data: a/b: expected text, got bytes of no format that is known, with 00 at byte 4");
  EXPECT_THAT(Error("a\x01 b\x02 c\x03"), HasSubstr("with 01 at byte 1"));
  // NUL anywhere in what is looked at.
  std::string late(kRecognizedBytes, 'x');
  late.back() = '\0';
  EXPECT_THAT(Error(late), HasSubstr("with 00 at byte 65535"));
}

// Names what a file is, and how it becomes text.
TEST(FileKindTest, ForeignFormatsAreNamedWithTheirCure) {
  const std::string zeros(100, '\0');
  const std::vector<std::pair<std::string, const char*>> files = {
      {Hex(kBzip2), "got bzip2 compressed data; unpack it with bunzip2 --keep a/b"},
      {Hex(kXz), "got XZ compressed data; unpack it with unxz --keep a/b"},
      {Hex(kLzma), "got LZMA compressed data; unpack it with unxz --keep a/b"},
      {Hex(kLz4), "; unpack it with unlz4 a/b"},
      {Hex(kZip), "got Zip archive data; unpack it with unzip a/b"},
      {"PAR1" + zeros + "PAR1",
       "got Apache Parquet; write it as text with bazel run //tools:dataset -- convert a/b "
       "NAME.csv"},
      {"ARROW1" + zeros, "got an Arrow file; Python's pyarrow.ipc"},
      {Hex("ffffffff10010000") + zeros, "got an Arrow stream; Python's pyarrow.ipc"},
      {"\x89HDF\r\n\x1a\n" + zeros, "got an HDF5 file; Python's h5py"},
      {Hex(kSqlite), "got SQLite 3.x database"},
      {Hex(kPng), "got PNG image data"},
      {"%PDF-1.4\n%\xc7\xec\x8f\xa2\n" + zeros,
       "got PDF document; write its text with pdftotext a/b"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
       "got a Git LFS pointer instead of the file itself; git lfs pull"},
      {Hex("3800000000000000") + "{\"a\":{\"dtype\":\"F32\"}}", "got weights in safetensors"},
      {std::string("MMIDIDX\0\0", 9) + zeros, "got the index of Megatron-LM's tokens"},
      // llm.c's gpt2_124M.bin and gpt2_tokenizer.bin.
      {Hex("c6d7340103000000") + zeros, "with the magic number 20240326, which has no tokens"},
      {Hex("c8d7340102000000") + zeros, "with the magic number 20240328, which has no tokens"}};
  for (const auto& [bytes, expected] : files) {
    EXPECT_THAT(Error(bytes), HasSubstr(expected));
    EXPECT_THAT(Error(bytes), HasSubstr("data: a/b: expected text, got "));
    EXPECT_EQ(KindOfMagic(bytes) == FileKind::kUnknown ? FileKind::kForeign : KindOfMagic(bytes),
              RecognizeBytes(bytes).kind);
    EXPECT_TRUE(RecognizeBytes(bytes).certain) << expected;
  }
  // POSIX's header: a name, its checksum and the magic.
  std::string tar = "name" + std::string(508, '\0');
  tar.replace(148, 6, "002460");
  tar.replace(154, 2, std::string("\0 ", 2));
  tar.replace(257, 8,
              std::string("ustar\0"
                          "00",
                          8));
  EXPECT_THAT(Error(tar), HasSubstr("tar archive"));
}

TEST(FileKindTest, WeightsAreKnownByTheirBytes) {
  const std::string zeros(100, '\0'), zip = Hex("504b0304000008080000000000000000") + zeros;
  // torch.save({}) of 2.x, of 1.5, and with protocol 4; pickle.dumps([1]) with protocol 4.
  const std::string old = Hex("8a0a6cfc9c46f9206aa850192e");
  const std::vector<std::pair<std::string, FileKind>> files = {
      {zip.substr(0, 30) + "archive/data.pkl" + zeros, FileKind::kTorch},
      {Hex("8002") + old + Hex("80024de9032e"), FileKind::kTorch},
      {Hex("8004950d00000000000000") + old, FileKind::kTorch},
      {zip, FileKind::kZip},
      {Hex("80049506000000000000005d944b01612e"), FileKind::kForeign},
      {Hex("8002cc0a"), FileKind::kUnknown},  // numbers of 16 bits
      {"\x89HDF\r\n\x1a\n" + zeros, FileKind::kHdf5},
      {Hex("4747554603000000") + zeros, FileKind::kGguf},
      {"GGUF is a format", FileKind::kText},
      {Hex("3800000000000000") + "{\"a\":{\"dtype\":\"F32\"}}", FileKind::kSafetensors}};
  for (const auto& [bytes, kind] : files) {
    EXPECT_EQ(RecognizeBytes(bytes).kind, kind) << RecognizeBytes(bytes).name;
  }
  EXPECT_EQ(Error(files[0].first),
            "data: a/b: expected text, got what torch.save wrote; Python's torch.load reads it");
  EXPECT_EQ(Error(files[4].first),
            "data: a/b: expected text, got a pickle of Python; Python's pickle.load reads it");
}

TEST(FileKindTest, FormatsThatAreReadHereAreKnownByTheirBytes) {
  std::string record;
  AppendFramed(Framing::kTfRecord, "x", &record);
  const std::string tokens = BytesOfTokens({TokenFormat::kLlmC, {1, 2}, {}, {}, {}}, 300)->bin;
  const std::vector<std::pair<std::string, FileKind>> files = {
      {Gzipped("text"), FileKind::kGzip},
      {Zstandard("text"), FileKind::kZstandard},
      {NpyBytes({'u', 1, {1}, "a"}), FileKind::kNpy},
      {record, FileKind::kTfRecord},
      {RecordBytes({{1}, 0, 0, "x"}), FileKind::kRecordIo},
      {Hex("0000080100000001ff"), FileKind::kIdx},
      {tokens, FileKind::kLlmCTokens}};
  for (const auto& [bytes, kind] : files) {
    EXPECT_EQ(KindOfMagic(bytes), kind);
    EXPECT_EQ(RecognizeBytes(bytes).kind, kind);
    EXPECT_FALSE(CheckText("a", bytes).ok());
  }
  EXPECT_THAT(Error(Gzipped("text")),
              HasSubstr("got gzip compressed data; unpack it with gunzip a/b"));
  EXPECT_THAT(Error(record),
              HasSubstr("got TFRecord data; bazel run //tools:dataset -- inspect a/b"));
}

// The numbers of frames to skip are 0x184d2a50 to 0x184d2a5f.
TEST(FileKindTest, EachSkippableFrameBeginsAZstdFile) {
  for (int number = 0; number < 16; ++number) {
    const std::string begin = {static_cast<char>(0x50 + number), 0x2a, 0x4d, 0x18};
    EXPECT_EQ(KindOfMagic(begin), FileKind::kZstandard) << number;
  }
  EXPECT_EQ(KindOfMagic("\x4f\x2a\x4d\x18"), FileKind::kUnknown);
  EXPECT_EQ(KindOfMagic("\x60\x2a\x4d\x18"), FileKind::kUnknown);
}

// 0x088b1f bytes, which is how long the first record of a file of OneFlow's may be.
TEST(FileKindTest, ALengthThatReadsLikeGzipIsNotGzip) {
  EXPECT_EQ(KindOfMagic(absl::string_view("\x1f\x8b\x08\0\0\0\0\0\x0a\x05", 10)),
            FileKind::kUnknown);
}

TEST(FileKindTest, WideTextIsNamedWithAndWithoutItsMark) {
  const absl::string_view text = "some words\nand more of them";
  const auto error = [](const std::string& bytes) { return Error(bytes); };
  EXPECT_THAT(
      error(Wide(text, 2, false)),
      HasSubstr("got text in UTF-16LE; convert it with iconv -f UTF-16LE -t UTF-8 a/b > NAME"));
  EXPECT_THAT(error(Wide(text, 2, true)), HasSubstr("got text in UTF-16BE"));
  EXPECT_THAT(error(Wide(text, 4, false)), HasSubstr("got text in UTF-32LE"));
  EXPECT_THAT(error(Wide(text, 4, true)), HasSubstr("got text in UTF-32BE"));
  EXPECT_THAT(error("\xff\xfe" + Wide(text, 2, false)), HasSubstr("got text in UTF-16"));
  EXPECT_THAT(error("\xfe\xff" + Wide(text, 2, true)), HasSubstr("got text in UTF-16"));
  EXPECT_THAT(error(Hex("fffe0000") + Wide(text, 4, false)), HasSubstr("got text in UTF-32"));
  // A word in Cyrillic, a blank and another, in UTF-16 with the high byte first.
  EXPECT_THAT(error(Hex("041f044004380432043504420020043c04380440000a")),
              HasSubstr("got text in UTF-16BE"));
  // Two characters in Chinese, and nothing else, with a mark.
  EXPECT_THAT(error(Hex("fffe2d4e8765")), HasSubstr("got text in UTF-16"));
}

// Numbers of 16 and 32 bits are no text of as many, and no other format either.
TEST(FileKindTest, NumbersAreUnknown) {
  std::string small, large;
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t number = i * 2654435761u % 50257;
    small.append(reinterpret_cast<const char*>(&number), 2);
    large.append(reinterpret_cast<const char*>(&number), 4);
  }
  EXPECT_FALSE(RecognizeBytes(small).IsOtherThanNumbers()) << RecognizeBytes(small).name;
  EXPECT_FALSE(RecognizeBytes(large).IsOtherThanNumbers()) << RecognizeBytes(large).name;
}

TEST(FileKindTest, ANameThatSaysPackedIsHeldToIt) {
  EXPECT_EQ(CheckPackedName("a.txt.gz", "text").message(),
            "expected packed bytes, as .gz in its name says, got text; a file that "
            "is not packed needs another name");
  EXPECT_FALSE(CheckPackedName("a.zst", "").ok());
  EXPECT_FALSE(CheckPackedName("a.bz2", "text").ok());
  EXPECT_FALSE(CheckPackedName("a.gz", Hex(kBzip2)).ok());
  EXPECT_TRUE(CheckPackedName("a.zst", Gzipped("text")).ok());
  EXPECT_TRUE(CheckPackedName("a.gz", Gzipped("text")).ok());
  EXPECT_TRUE(CheckPackedName("a.bz2", Hex(kBzip2)).ok());  // what it is, its readers say
  EXPECT_TRUE(CheckPackedName("a.txt", "text").ok());
  EXPECT_EQ(PackedEnding("a.tar.xz"), ".xz");
  EXPECT_EQ(PackedEnding("gz"), "");
}

TEST(FileKindTest, DescribesABeginThatNobodyKnows) {
  EXPECT_EQ(DescribeBegin("a", Hex("00c1f301")), "the bytes 00 c1 f3 01");
  EXPECT_EQ(DescribeBegin("a", ""), "nothing: it is empty");
  EXPECT_EQ(DescribeBegin("a", "text"), "text");
  EXPECT_EQ(DescribeBegin("a", Gzipped("text")), "gzip compressed data; unpack it with gunzip a");
  EXPECT_EQ(DescribeBegin("", Gzipped("text")), "gzip compressed data");
}

}  // namespace
}  // namespace sluice
