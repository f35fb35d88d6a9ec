#include "framework/tools/convert.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/encode_testing.h"
#include "framework/data/example.h"
#include "framework/data/file.h"
#include "framework/data/framed_records.h"
#include "framework/data/npy.h"
#include "framework/data/pack_testing.h"
#include "framework/data/token_file.h"
#include "framework/tools/inspect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class ConvertTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + name, std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) { return ReadFile(folder_ + name).value(); }

  // What is said of it, or the error.
  std::string Convert(const std::string& in, const std::string& out, const std::string& format = "",
                      const std::string& to = "", const RawColumns& columns = {}) {
    const auto from = FormatOfFile(folder_ + in, format), into = FormatOfNewFile(folder_ + out, to);
    if (!from.ok() || !into.ok())
      return from.ok() ? into.status().ToString() : from.status().ToString();
    const auto line = ConvertFile({folder_ + in, *from}, {folder_ + out, *into}, columns);
    EXPECT_FALSE(std::filesystem::exists(folder_ + out + ".partial"));
    return line.ok() ? *line : std::string(line.status().message());
  }
  std::string Inspect(const std::string& name, const std::string& format = "",
                      const RawColumns& columns = {}) {
    const auto of = FormatOfFile(folder_ + name, format);
    if (!of.ok()) return of.status().ToString();
    const auto lines = InspectFile(folder_ + name, *of, columns);
    return lines.ok() ? *lines : std::string(lines.status().message());
  }
  std::string folder_;
};

std::string Pictures(Framing framing) {
  std::string bytes;
  for (int i = 0; i < 5; ++i) {
    const std::vector<std::string> picture = {
        EncodePng(std::vector<uint8_t>(3 * 4 * 3, static_cast<uint8_t>(i)), 3, 4)};
    const Example example =
        framing == Framing::kTfRecord
            ? Example{{"image/encoded", picture}, {"image/class/label", std::vector<int64_t>{i}}}
            : Example{{"encoded", picture}, {"class/label", std::vector<int32_t>{i}}};
    AppendFramed(framing, *ExampleBytes(framing, example), &bytes);
  }
  return bytes;
}

TEST_F(ConvertTest, RecordsGoRoundThroughAllThreeFormats) {
  Write("a.tfrecord", Pictures(Framing::kTfRecord));
  Write("b.ofrecord.zst", Zstandard(Pictures(Framing::kOfRecord)));
  EXPECT_EQ(Convert("a.tfrecord", "a.rec"), folder_ + "a.rec: 5 records");
  EXPECT_EQ(Convert("a.rec", "part-00000"), folder_ + "part-00000: 5 records");
  EXPECT_EQ(Read("part-00000"), Pictures(Framing::kOfRecord));
  EXPECT_EQ(Convert("a.rec", "c.tfrecord"), folder_ + "c.tfrecord: 5 records");
  EXPECT_EQ(Read("c.tfrecord"), Read("a.tfrecord"));
  // Names of features stay, and i32 becomes i64.
  EXPECT_EQ(Convert("b.ofrecord.zst", "d.tfrecord"), folder_ + "d.tfrecord: 5 records");
  EXPECT_THAT(Inspect("d.tfrecord"), HasSubstr("class/label  i64[1]"));
  EXPECT_THAT(Inspect("a.rec"), HasSubstr("key 2      labels 2; picture of 3 x 4 in "));
}

TEST_F(ConvertTest, AFolderOfPicturesBecomesRecords) {
  for (int i = 0; i < 5; ++i) {
    const std::string label(1, static_cast<char>('a' + i));
    std::filesystem::create_directories(folder_ + "train/" + label);
    Write("train/" + label + "/1.png",
          EncodePng(std::vector<uint8_t>(3 * 4 * 3, static_cast<uint8_t>(i)), 3, 4));
  }
  EXPECT_EQ(Convert("train", "a.tfrecord"), folder_ + "a.tfrecord: 5 records");
  EXPECT_EQ(Read("a.tfrecord"), Pictures(Framing::kTfRecord));
  EXPECT_EQ(Convert("train", "a.rec"), folder_ + "a.rec: 5 records");
  EXPECT_EQ(Convert("a.rec", "b.ofrecord"), folder_ + "b.ofrecord: 5 records");
  EXPECT_EQ(Read("b.ofrecord"), Pictures(Framing::kOfRecord));
  EXPECT_THAT(Convert("a.rec", "train"), HasSubstr("got recordio and images"));
  std::filesystem::create_directories(folder_ + "val");
  EXPECT_EQ(Convert(".", "c.tfrecord"),
            folder_ +
                ".: expected a folder of class folders, got train and val: each is a file of "
                "its own");
}

TEST_F(ConvertTest, WhatRecordsHoldIsSaid) {
  Write("a.tfrecord", Pictures(Framing::kTfRecord) + "cut");
  const std::string lines = Inspect("a.tfrecord");
  for (const char* part :
       {"format     tfrecord\n",
        "records    5 records; the last 3 bytes are of one that is cut short\n",
        "feature    image/class/label  i64[1]\n", "feature    image/encoded  bytes[1]\n",
        "record 0   image/class/label = 0; image/encoded = picture of 3 x 4 in ", "record 2   "}) {
    EXPECT_THAT(lines, HasSubstr(part));
  }
  EXPECT_EQ(lines.find("record 3"), lines.npos);
  EXPECT_EQ(Convert("a.tfrecord", "a.rec"),
            "data: " + folder_ +
                "a.tfrecord: expected whole records, got 3 bytes of one that is cut short behind "
                "the last");
  std::string damaged = Pictures(Framing::kTfRecord);
  damaged[damaged.size() - 20] ^= 1;
  Write("b.tfrecord", damaged);
  EXPECT_THAT(Inspect("b.tfrecord"), HasSubstr("b.tfrecord: record 4 at byte "));
  EXPECT_THAT(Convert("b.tfrecord", "b.ofrecord"), HasSubstr("expected a record of checksum "));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "b.ofrecord"));
}

TEST_F(ConvertTest, ArraysGoRoundThroughAllThreeFormats) {
  const NpyArray array = {'u', 1, {2, 3}, "abcdef"};
  Write("a.npy", NpyBytes(array));
  EXPECT_EQ(Convert("a.npy", "a-ubyte"), folder_ + "a-ubyte: an array of u1 [2,3]");
  EXPECT_EQ(Convert("a-ubyte", "b.npz"), folder_ + "b.npz: 1 arrays");
  EXPECT_EQ(Convert("b.npz", "b.npy"), folder_ + "b.npy: an array of u1 [2,3]");
  EXPECT_EQ(Read("b.npy"), Read("a.npy"));
  EXPECT_EQ(Inspect("b.npz"),
            "format     npz\narrays     1\narray      arr_0  u1 [2,3]  97 98 99 100 101 102\n");
  EXPECT_EQ(Inspect("a-ubyte"), "format     idx\narray      u1 [2,3]  97 98 99 100 101 102\n");
  const float numbers[3] = {0.5f, -1, 3};
  const std::string floats(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  Write("f.npy", NpyBytes({'f', 4, {3}, floats}));
  EXPECT_EQ(Inspect("f.npy"), "format     npy\narray      f4 [3]  0.5 -1 3\n");
  std::vector<double> many(20, 1);
  many[15] = HUGE_VAL, many[17] = std::nan("");
  Write("n.npy", NpyBytes({'f', 8, {20}, {reinterpret_cast<const char*>(many.data()), 160}}));
  EXPECT_EQ(Inspect("n.npy"),
            "format     npy\narray      f8 [20]  1 1 1 1 1 1 1 1 ..; 2 are not finite\n");
  EXPECT_EQ(Convert("f.npy", "f-ubyte"),
            folder_ +
                "f.npy: expected an array of u1 with 1 to 8 dimensions for an IDX file, got "
                "f4 [3]");
  Write("two.npz", *NpzBytes({{"a", array}, {"b", array}}, false));
  EXPECT_EQ(Convert("two.npz", "one.npy"),
            folder_ + "two.npz: expected one array for " + folder_ + "one.npy, got 2");
}

TEST_F(ConvertTest, TablesGoRoundWhereColumnsAllow) {
  const RawColumns columns = {.labels = 1, .numbers = 2, .keys = 2};
  const std::string log = "1\t3\t\t68fd1e64\t\n0\t-1.5\t16777216\t0000000a\tffffffff\n";
  Write("a.tsv", log);
  EXPECT_EQ(Convert("a.tsv", "a.raw", "", "", columns), folder_ + "a.raw: 2 samples");
  EXPECT_EQ(std::filesystem::file_size(folder_ + "a.raw"), 40u);
  EXPECT_EQ(Convert("a.raw", "b.tsv", "", "", columns), folder_ + "b.tsv: 2 rows");
  EXPECT_EQ(Read("b.tsv"), log);
  EXPECT_EQ(Convert("a.raw", "b.csv", "", "", columns), folder_ + "b.csv: 2 rows");
  EXPECT_EQ(Read("b.csv"),
            "label,I1,I2,C1,C2\n1,3,,68fd1e64,\n0,-1.5,16777216,0000000a,ffffffff\n");
  EXPECT_EQ(Convert("b.csv", "c.raw", "", "", columns), folder_ + "c.raw: 2 samples");
  EXPECT_EQ(Read("c.raw"), Read("a.raw"));
  EXPECT_EQ(Inspect("a.raw", "", columns),
            "format     hugectr\nsamples    2 samples\ncolumns    1 labels and 2 numbers f32, 2 "
            "keys u32\nsample 0   1; 3 nan; 1761418852 0\nsample 1   0; -1.5 1.67772e+07; 10 "
            "4294967295\n");
  RawColumns integers = columns;
  integers.floats = false;
  EXPECT_EQ(Convert("a.tsv", "d.raw", "", "", integers),
            folder_ + "a.tsv:1: field 2: expected a number, got \"\"");
  Write("e.tsv", "1\t3\t1.5\ta\tb\n");
  EXPECT_EQ(Convert("e.tsv", "d.raw", "", "", integers),
            folder_ + "e.tsv:1: field 2: expected an integer of 0 or more, got 1.5");
  Write("e.tsv", "1\t3\t1\ta\tcolour\n");
  EXPECT_EQ(Convert("e.tsv", "d.raw", "", "", columns),
            folder_ + "e.tsv:1: field 4: expected up to 8 hexadecimal digits, got \"colour\"");
  EXPECT_EQ(Convert("e.tsv", "d.raw"),
            folder_ + "e.tsv:1: expected 1 labels, 13 numbers and 26 keys, got 5 fields");
  Write("e.tsv", "1\t3\t1e39\ta\tb\n");
  EXPECT_EQ(Convert("e.tsv", "d.raw", "", "", columns),
            folder_ + "e.tsv:1: field 2: expected a finite number or nothing, got \"1e39\"");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "d.raw"));
}

TEST_F(ConvertTest, WhatACsvQuotesATsvCannot) {
  Write("a.csv", "name,what\n\"x, \"\"y\"\"\",1\n");
  EXPECT_EQ(Convert("a.csv", "a.tsv"), folder_ + "a.tsv: 2 lines");
  EXPECT_EQ(Read("a.tsv"), "name\twhat\nx, \"y\"\t1\n");
  EXPECT_EQ(Convert("a.tsv", "b.csv"), folder_ + "b.csv: 2 lines");
  EXPECT_EQ(Read("b.csv"), Read("a.csv"));
  EXPECT_EQ(
      Inspect("a.csv"),
      "format     csv\nrows       1 of 2 columns\ncolumns    name | what\nline 2     x, \"y\" "
      "| 1\n");
  Write("a.csv", "a,b\n\"x\ty\",1\n");
  EXPECT_EQ(Convert("a.csv", "a.tsv"),
            folder_ + "a.csv:2: field 0: expected no TAB and no end of line for a .tsv, got one");
}

TEST_F(ConvertTest, TokensGoRoundThroughAllThreeFormats) {
  Write("a.bin", std::string("\1\0\2\0\xff\xff", 6));
  EXPECT_EQ(Convert("a.bin", "b.bin", "", "llm.c"), folder_ + "b.bin: 3 tokens");
  EXPECT_EQ(Convert("b.bin", "c.bin", "", "megatron"), folder_ + "c.bin: 3 tokens");
  EXPECT_EQ(Convert("c.bin", "d.bin", "", "nanogpt"), folder_ + "d.bin: 3 tokens");
  EXPECT_EQ(Read("d.bin"), Read("a.bin"));
  EXPECT_THAT(Inspect("d.bin"), HasSubstr("format     nanogpt\ntokens     3 of 16 bits\n"));
  EXPECT_EQ(Inspect("c.bin"),
            "format     megatron\ntokens     3 of 32 bits\nsequences  1 in 1 documents\nlargest    "
            "65535\nfirst "
            "     1 2 65535\n");
}

// As trainers see them: a name does not make a file what it is not.
TEST_F(ConvertTest, AFormatIsThatOfTheBytes) {
  Write("gzip.txt", Gzipped("one\ntwo\n"));
  EXPECT_THAT(Inspect("gzip.txt"), HasSubstr("text       8 bytes, 2 lines"));
  Write("a.tfrecord", Pictures(Framing::kTfRecord));
  Write("b.tfrecord", Gzipped(Pictures(Framing::kTfRecord)));
  Write("records", Pictures(Framing::kTfRecord));
  for (const char* name : {"b.tfrecord", "records"})
    EXPECT_EQ(Inspect(name), Inspect("a.tfrecord"));
  Write("a.dat", NpyBytes({'u', 1, {2, 3}, "abcdef"}));
  EXPECT_EQ(Convert("a.dat", "a.npz"), folder_ + "a.npz: 1 arrays");
  Write("b.npy", "no array\n");
  EXPECT_THAT(Inspect("b.npy"), HasSubstr("format     text\n"));
  for (const char* name : {"c.csv", "c.npy", "c.bin", "c.tfrecord", "c"}) {
    Write(name, std::string("PAR1\0PAR1", 9));
    EXPECT_THAT(
        Inspect(name),
        HasSubstr("got Apache Parquet; write it as text with bazel run //tools:dataset -- convert"))
        << name;
  }
  Write("d.csv.gz", "a,b\n1,2\n");
  EXPECT_THAT(Inspect("d.csv.gz"), HasSubstr("as .gz in its name says, got text"));
  Write("e", std::string("\x01\x02\0\x04", 4));
  EXPECT_THAT(Inspect("e"), HasSubstr("got bytes of no format that is known, with 01 at byte 0"));
}

// A byte order mark is no part of the first name, as spreadsheets save it.
TEST_F(ConvertTest, ASheetWithAByteOrderMark) {
  Write("marked.csv", "\xef\xbb\xbfweight,name\r\n1.5,\"a, b\"\r\n");
  Write("plain.csv", "weight,name\n1.5,\"a, b\"\n");
  EXPECT_EQ(Inspect("marked.csv"), Inspect("plain.csv"));
  Convert("marked.csv", "marked.tsv"), Convert("plain.csv", "plain.tsv");
  EXPECT_EQ(Read("marked.tsv"), "weight\tname\n1.5\ta, b\n");
  EXPECT_EQ(Read("plain.tsv"), Read("marked.tsv"));
}

// Without a header the numbers say of how many bits they are.
TEST_F(ConvertTest, TokensOf32Bits) {
  std::string bin;
  for (uint32_t i = 0; i < 100; ++i) {
    const uint32_t token = i * 2654435761u % 128256;
    bin.append(reinterpret_cast<const char*>(&token), 4);
  }
  Write("a.bin", bin);
  EXPECT_EQ(Convert("a.bin", "b.bin", "", "llm.c"), folder_ + "b.bin: 100 tokens of 32 bits");
  EXPECT_THAT(Inspect("b.bin"), HasSubstr("format     llm.c\ntokens     100 of 32 bits\n"));
  EXPECT_EQ(Convert("b.bin", "c.bin", "", "nanogpt"), folder_ + "c.bin: 100 tokens of 32 bits");
  EXPECT_EQ(Read("c.bin"), bin);
}

TEST_F(ConvertTest, WhatDoesNotFitIsOneLine) {
  Write("a.npy", NpyBytes({'u', 1, {1}, "a"}));
  Write("a.what", "x");
  EXPECT_THAT(Convert("a.npy", "a.tfrecord"),
              HasSubstr("a.npy: expected formats that hold the same, and are not, of {tfrecord, "
                        "ofrecord, recordio}, to these from a folder of images, {npy, npz, idx}"));
  EXPECT_THAT(Convert("a.npy", "b.npy"), HasSubstr("got npy and npy"));
  EXPECT_THAT(Convert("a.npy", "b.npz.gz"),
              HasSubstr("expected a name without .gz: nothing is packed"));
  EXPECT_THAT(Inspect("a.what"), HasSubstr("format     text\n"));
  EXPECT_THAT(
      Convert("a.npy", "b.what"),
      HasSubstr("b.what: expected a file or a name of a format that is known here, got another "
                "ending; --to may be one of tfrecord, ofrecord, "));
  EXPECT_THAT(Inspect("a.npy", "numpy"), HasSubstr("expected a format of tfrecord, "));
  EXPECT_THAT(Inspect("none.npy"), HasSubstr("none.npy: No such file or directory"));
  Write("t.txt", "one\ntwo\n");
  EXPECT_EQ(Inspect("t.txt"),
            "format     text\ntext       8 bytes, 2 lines\nbegins     one two \n");
}

}  // namespace
}  // namespace sluice
