#include "framework/data/npy.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/file.h"
#include "framework/data/pack_testing.h"
#include "framework/data/zip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What testdata/npy_golden.py had NumPy write.
std::string Golden(const std::string& name) { return "framework/data/testdata/npy/" + name; }

template <typename T>
std::string Counted(int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

std::string ErrorOf(const std::string& bytes) {
  return std::string(ParseNpy("file", bytes).status().message());
}

// A file of version 1 with this header.
std::string WithHeader(const std::string& header, const std::string& values) {
  return absl::StrCat("\x93NUMPY", absl::string_view("\x01\0", 2),
                      std::string(1, static_cast<char>(header.size())), absl::string_view("\0", 1),
                      header, values);
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  struct Case {
    const char *name, *type;
    Shape shape;
    std::string values;
  };
  std::string complex;
  for (int i = 0; i < 6; ++i) {
    const float value[2] = {static_cast<float>(i), 0};
    complex.append(reinterpret_cast<const char*>(value), sizeof(value));
  }
  for (const Case& golden :
       std::vector<Case>{{"f4", "f4", {2, 3}, Counted<float>(6)},
                         {"f4_version_2", "f4", {2, 3}, Counted<float>(6)},
                         {"f4_version_3", "f4", {2, 3}, Counted<float>(6)},
                         {"i8_fortran", "i8", {2, 3, 4}, Counted<int64_t>(24)},
                         {"i4_big", "i4", {2, 3}, Counted<int32_t>(6)},
                         {"c8_big_fortran", "c8", {2, 3}, complex},
                         {"f8_scalar", "f8", {}, Counted<double>(1)},
                         {"u1_empty", "u1", {3, 0, 2}, ""},
                         {"u2_vector", "u2", {5}, Counted<uint16_t>(5)},
                         {"b1", "b1", {2, 3}, std::string("\0\1\1\1\1\1", 6)}}) {
    const auto array = ReadNpy(Golden(absl::StrCat(golden.name, ".npy")));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->TypeName(), golden.type) << golden.name;
    EXPECT_EQ(array->shape, golden.shape) << golden.name;
    EXPECT_EQ(array->values, golden.values) << golden.name;
  }
}

TEST(NpyTest, WritesWhatNumpyWrites) {
  for (const char* name : {"f4", "f8_scalar", "u1_empty", "u2_vector", "b1"}) {
    const std::string path = Golden(absl::StrCat(name, ".npy"));
    EXPECT_EQ(NpyBytes(*ReadNpy(path)), *ReadFile(path)) << name;
  }
}

TEST(NpyTest, WhatHasNoNumbersIsRefused) {
  for (const char* name : {"object", "text"}) {
    EXPECT_THAT(std::string(ReadNpy(Golden(absl::StrCat(name, ".npy"))).status().message()),
                HasSubstr("expected numbers, such as <f4, |u1 or >i8, got type "));
  }
  EXPECT_THAT(std::string(ReadNpy(Golden("record.npy")).status().message()),
              HasSubstr("expected an array of numbers, got one of records"));
}

TEST(NpyTest, HeadersThatAreNoneAreNamedWithTheirPlace) {
  EXPECT_EQ(ErrorOf("\x93NUM"), "file: expected a .npy head of 8 bytes, got 4");
  EXPECT_EQ(ErrorOf("\x93NUMPX12"),
            "file: expected a .npy file, which begins with \\x93NUMPY, got \\x93NUMPX");
  EXPECT_EQ(ErrorOf("\x93NUMPY\x04 "), "file: expected version 1, 2 or 3 at byte 6, got 4");
  EXPECT_EQ(ErrorOf("\x93NUMPY\x02 \xff\xff\xff\x7f"),
            "file: expected a header of at most 1048576 bytes at byte 8, got 2147483647");
  EXPECT_EQ(ErrorOf("\x93NUMPY\x01 \x09\x10{"), "file: expected a header of 4105 bytes, got 1");
  const std::string rest = "'fortran_order': False, 'shape': (1,), }";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x", "expected { at byte 10, got \"x\""},
      {"{'descr': <f4', ", "expected a text in quotes at byte 20, got \"<f4', \""},
      {"{'descr': '<f4, ", "expected a text that ends at byte 20, got \"'<f4, \""},
      {"{'descr' '<f4'", "expected : at byte 19, got \"'<f4'\""},
      {"{'descr': '<f4' ", "expected a comma or } at byte 26, got \"\""},
      {"{'dscr': '<f4', ",
       "expected descr, fortran_order and shape, each once, but for dscr at "
       "byte 18, got \" '<f4', \""},
      {"{'shape': (1,), 'shape': (1,), }",
       "expected descr, fortran_order and shape, each once, "
       "but for shape at byte 34, got \" (1,), }\""},
      {"{'descr': '<f4', 'shape': (1,), }",
       "expected descr, fortran_order and shape before it at byte 43, got \"\""},
      {"{'shape': (-1,), ", "expected an extent at byte 21, got \"-1,), \""},
      {"{'shape': (1 2), ", "expected a comma or ) at byte 23, got \"2), \""},
      {"{'shape': (99999999999999999999,), ",
       "expected an extent at byte 21, got \"999999999999\""},
      {"{'fortran_order': 1, ", "expected False at byte 28, got \"1, \""},
      {"{'descr': '<f4', " + rest + " x", "expected the end of the header at byte 68, got \"x\""}};
  for (const auto& [header, error] : cases) {
    EXPECT_EQ(ErrorOf(WithHeader(header, "")), "file: " + error) << header;
  }
  for (const char* type : {"<f3", "<f16", "f4", "<U3", "|O", "<c4", "|b2", "<f4x", ""}) {
    EXPECT_EQ(ErrorOf(WithHeader(absl::StrCat("{'descr': '", type, "', ", rest), "1234")),
              absl::StrCat("file: expected numbers, such as <f4, |u1 or >i8, got type ", type));
  }
}

TEST(NpyTest, FewerOrMoreValuesThanTheHeaderSaysAreRefused) {
  const std::string bytes = *ReadFile(Golden("f4.npy"));
  EXPECT_EQ(ErrorOf(bytes.substr(0, bytes.size() - 1)),
            "file: expected f4 [2,3], got 23 bytes of values at most");
  EXPECT_EQ(ErrorOf(bytes + "."), "file: expected 24 bytes of f4 [2,3], got more");
  EXPECT_EQ(ErrorOf(Gzipped(bytes.substr(0, bytes.size() - 1))),
            "file: expected 24 bytes of f4 [2,3], got 23");
  EXPECT_EQ(ParseNpy("file", Gzipped(bytes))->values, Counted<float>(6));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ErrorOf(bytes.substr(0, size)), StartsWith("file: expected ")) << size;
  }
  // Nothing is allocated for it.
  EXPECT_THAT(ErrorOf(WithHeader("{'descr': '<f8', 'fortran_order': False, 'shape': "
                                 "(9223372036854775807, 9223372036854775807), }",
                                 "12345678")),
              HasSubstr("got 8 bytes of values at most"));
}

TEST(NpzTest, ReadsWhatNumpyWrites) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const auto arrays = ReadNpz(Golden(name));
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    ASSERT_EQ(arrays->size(), 2u);
    EXPECT_EQ((*arrays)[0].first, "images");
    EXPECT_EQ((*arrays)[0].second.shape, Shape({2, 2, 2}));
    EXPECT_EQ((*arrays)[0].second.values, Counted<uint8_t>(8));
    EXPECT_EQ((*arrays)[1].first, "labels");
    EXPECT_EQ((*arrays)[1].second.values, Counted<int64_t>(2));
  }
}

TEST(NpzTest, WhatIsWrittenIsRead) {
  const NamedArrays arrays = {{"a", {'f', 4, {300}, Counted<float>(300)}},
                              {"b/c", {'u', 1, {0}, ""}}};
  std::vector<size_t> sizes;
  for (const bool deflate : {false, true}) {
    const auto bytes = NpzBytes(arrays, deflate);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto read = ParseNpz("file", *bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), 2u);
    EXPECT_EQ((*read)[0].second.values, arrays[0].second.values);
    EXPECT_EQ((*read)[1].first, "b/c");
    sizes.push_back(bytes->size());
  }
  EXPECT_LT(sizes[1], sizes[0]);
  EXPECT_EQ(ParseNpz("file", *ZipBytes({{"a.txt", "b"}}, false)).status(),
            absl::InvalidArgumentError("file: a.txt: expected an array, NAME.npy, in a .npz"));
}

// Damage of what the numbers are read from is found; times and attributes say nothing.
TEST(NpzTest, EveryFlippedByteIsFoundOrSaysNothing) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string bytes = *ReadFile(Golden(name));
    const auto all = *ParseNpz("file", bytes);
    int found = 0;
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      const auto arrays = ParseNpz("file", flipped);
      if (!arrays.ok()) {
        EXPECT_THAT(std::string(arrays.status().message()), HasSubstr("file: ")) << at;
        ++found;
        continue;
      }
      for (size_t i = 0; i < arrays->size(); ++i) {
        EXPECT_EQ((*arrays)[i].second.values, all[i].second.values) << at;
      }
    }
    EXPECT_GT(found, static_cast<int>(bytes.size() / 2));
  }
}

TEST(NpzTest, DamageIsNamedWithItsPlace) {
  const std::string bytes = *ReadFile(Golden("stored.npz"));
  EXPECT_EQ(ParseNpz("file", bytes.substr(0, 100)).status().message(),
            "data: file: expected a .zip, with the end of a directory behind the files, got 100 "
            "bytes without");
  std::string flipped = bytes;
  const size_t values = bytes.find(Counted<uint8_t>(8));
  flipped[values] = 9;
  EXPECT_THAT(std::string(ParseNpz("file", flipped).status().message()),
              ::testing::MatchesRegex("data: file: at byte [0-9]+: expected images.npy of checksum "
                                      "[0-9a-f]+, got [0-9a-f]+"));
  flipped = bytes;
  const size_t entry = bytes.find("PK\x01\x02");
  flipped[entry + 10] = 12;
  EXPECT_EQ(ParseNpz("file", flipped).status().message(),
            absl::StrCat("data: file: at byte ", entry,
                         ": expected a file that is stored or deflated, got one packed by method "
                         "12"));
  flipped[entry + 8] = 1;
  EXPECT_THAT(std::string(ParseNpz("file", flipped).status().message()),
              HasSubstr("got an encrypted one"));
  flipped[entry] = 'X';
  EXPECT_THAT(std::string(ParseNpz("file", flipped).status().message()),
              HasSubstr("expected entry 0 of 2, which begins with PK\\001\\002, got XK\\x01\\x02"));
}

// Sizes in 64 bits, as files of 4 GiB have them, with a directory that is found by a locator.
TEST(NpzTest, SizesOf64BitsAreRead) {
  const auto number = [](uint64_t value, int bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  const std::string plain = *ZipBytes({{"a.npy", NpyBytes({'u', 1, {2}, "xy"})}}, false);
  const size_t entry = plain.find("PK\x01\x02"), end = plain.find("PK\x05\x06");
  const std::string sizes = plain.substr(entry + 20, 4);
  std::string large = plain.substr(0, entry);
  const std::string extra =
      number(1, 2) + number(24, 2) + sizes + number(0, 4) + sizes + number(0, 4) + number(0, 8);
  std::string directory = plain.substr(entry, end - entry);
  directory.replace(20, 8, 8, '\xff');
  directory.replace(30, 2, number(extra.size(), 2));
  directory.replace(42, 4, 4, '\xff');
  directory += extra;
  const std::string tail = "PK\x06\x06" + number(44, 8) + std::string(12, '\0') + number(1, 8) +
                           number(1, 8) + number(directory.size(), 8) + number(entry, 8) +
                           "PK\x06\x07" + number(0, 4) + number(entry + directory.size(), 8) +
                           number(1, 4);
  std::string ending = plain.substr(end);
  ending.replace(8, 12, 12, '\xff');
  large += directory + tail + ending;
  const auto arrays = ParseNpz("file", large);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ((*arrays)[0].second.values, "xy");
  large.replace(entry + 46 + 5, 2, number(2, 2));
  EXPECT_EQ(ParseNpz("file", large).status().message(),
            absl::StrCat("data: file: at byte ", entry, ": expected sizes in 64 bits, got none"));
}

}  // namespace
}  // namespace sluice
