#include "framework/checkpoint/safetensors.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string FileOf(const std::string& header, size_t buffer_bytes) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return file + header + std::string(buffer_bytes, 'x');
}

absl::Status OpenBytes(const std::string& bytes) {
  const std::string path = Path("damaged.safetensors");
  FileWriter file = *FileWriter::Create(path);
  EXPECT_TRUE(file.Append(bytes).ok());
  EXPECT_TRUE(file.Close().ok());
  return SafetensorsReader::Open(path).status();
}

TEST(SafetensorsTest, WritesTheGoldenFile) {
  const std::string path = Path("golden.safetensors");
  const auto source = [](const TensorEntry& entry) {
    HostTensor tensor(entry.dtype, entry.shape);
    tensor.data<float>()[0] = 1;
    tensor.data<float>()[1] = 2;
    return tensor;
  };
  ASSERT_TRUE(WriteSafetensors(path, {{"a", DType::kF32, Shape{1, 2}}}, {}, source).ok());
  const std::string bytes = *ReadText(path, 1000);
  const std::string header = R"({"a":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]}})";
  ASSERT_EQ(header.size() % 8, 0u);
  std::string expected = FileOf(header, 0) + absl::HexStringToBytes("0000803f00000040");
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(expected));
}

TEST(SafetensorsTest, ReadsAFileOfTheReferenceWriter) {
  const std::string bytes = absl::HexStringToBytes(
      "38000000000000007b2261223a7b226474797065223a22463332222c227368617065223a5b312c325d2c22646174"
      "615f6f666673657473223a5b302c385d7d7d0000803f00000040");
  ASSERT_EQ(OpenBytes(bytes), absl::OkStatus());
  const auto reader = SafetensorsReader::Open(Path("damaged.safetensors"));
  const HostTensor a = *reader->Read("a");
  EXPECT_EQ(a.shape, (Shape{1, 2}));
  EXPECT_EQ(a.data<float>()[1], 2.0f);
  EXPECT_EQ(reader->Read("b").status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsTest, KeepsEveryTypeScalarsAndEmptyTensors) {
  const std::string path = Path("types.safetensors");
  const std::vector<TensorEntry> entries = {{"z", DType::kF64, Shape{}},
                                            {"empty", DType::kF32, Shape{0, 7}},
                                            {"b", DType::kBF16, Shape{3}},
                                            {"i", DType::kI32, Shape{2, 2}}};
  const auto source = [](const TensorEntry& entry) {
    HostTensor tensor(entry.dtype, entry.shape);
    for (int64_t i = 0; i < entry.shape.NumElements(); ++i) {
      StoreElement(entry.dtype, tensor.bytes.data(), i, i + 0.5);
    }
    return tensor;
  };
  ASSERT_EQ(WriteSafetensors(path, entries, {{"who", "test"}}, source), absl::OkStatus());
  const auto reader = SafetensorsReader::Open(path);
  ASSERT_EQ(reader.status(), absl::OkStatus());
  EXPECT_EQ(reader->metadata().at("who"), "test");
  ASSERT_EQ(reader->entries().size(), entries.size());
  for (const TensorEntry& entry : entries) {
    const HostTensor got = *reader->Read(entry.name);
    EXPECT_EQ(got.bytes, source(entry).bytes) << entry.name;
    EXPECT_EQ(got.shape, entry.shape);
  }
}

// Little-endian halves beside a mask of bytes, as transformers' older files have them.
TEST(SafetensorsTest, SixteenBitsAreWidenedAndOtherTypesListed) {
  const std::string header = R"({"half":{"dtype":"F16","shape":[2,4],"data_offsets":[0,16]},)"
                             R"("brain":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]},)"
                             R"("mask":{"dtype":"BOOL","shape":[3],"data_offsets":[20,23]},)"
                             R"("i":{"dtype":"I32","shape":[],"data_offsets":[23,27]}})";
  const auto bytes = [](std::initializer_list<int> halves) {
    std::string text;
    for (const int half : halves) text += {static_cast<char>(half), static_cast<char>(half >> 8)};
    return text;
  };
  const std::string path = Path("foreign.safetensors");
  std::ofstream(path, std::ios::binary)
      << static_cast<char>(header.size()) << static_cast<char>(header.size() >> 8)
      << std::string(6, '\0') << header
      << bytes({0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000, 0x7c00, 0xfe00, 0x3555, 0x3f80, 0xc040})
      << std::string(7, '\1');
  const auto reader = SafetensorsReader::Open(path);
  ASSERT_EQ(reader.status(), absl::OkStatus());
  EXPECT_EQ(reader->entries().size(), 2u);
  ASSERT_EQ(reader->stored().size(), 4u);
  EXPECT_EQ(reader->stored()[2].dtype, "BOOL");
  EXPECT_EQ(reader->stored()[2].shape, Shape{3});
  const HostTensor half = *reader->ReadAsF32("half");
  EXPECT_EQ(half.shape, (Shape{2, 4}));
  const float expected[] = {1, -2, 0x1p-24f, 65504, -0.0f, INFINITY, NAN, 0x1.554p-2f};
  for (int i = 0; i < 8; ++i) {
    const float got = half.data<float>()[i];
    EXPECT_TRUE(got == expected[i] || (std::isnan(got) && i == 6)) << i << ": " << got;
    EXPECT_EQ(std::signbit(got), i == 1 || i == 4 || i == 6) << i;
  }
  EXPECT_EQ(reader->ReadAsF32("brain")->data<float>()[1], -3.0f);
  EXPECT_THAT(std::string(reader->ReadAsF32("mask").status().message()),
              HasSubstr("mask: expected F32, F16 or BF16, got BOOL"));
  EXPECT_THAT(std::string(reader->Read("half").status().message()),
              HasSubstr("half: expected F32, F64, BF16 or I32, got F16"));
  EXPECT_EQ(reader->ReadAsF32("i").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsTest, TheWriterRefusesValuesOfAnotherTypeAndNamesTwice) {
  const auto source = [](const TensorEntry&) { return HostTensor(DType::kF32, Shape{2}); };
  EXPECT_THAT(
      std::string(
          WriteSafetensors(Path("w"), {{"a", DType::kF32, Shape{3}}}, {}, source).message()),
      HasSubstr("a: expected f32[3], got f32[2]"));
  EXPECT_FALSE(WriteSafetensors(Path("w"),
                                {{"a", DType::kF32, Shape{2}}, {"a", DType::kF32, Shape{2}}}, {},
                                source)
                   .ok());
}

struct Case {
  const char* header;
  size_t buffer;
  const char* message;
};

TEST(SafetensorsTest, RefusesDamage) {
  const Case cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "8 bytes of tensors, got 7"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "8 bytes of tensors, got 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "8 bytes for its shape"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "rising offsets"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "rising offsets"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "rising offsets"},
      {R"({"a":{"dtype":"F4","shape":[16],"data_offsets":[0,8]}})", 8, "a dtype such as F32, BF16"},
      {R"({"a":{"dtype":"F32","shape":[4194305,4194305,211106198978564],"data_offsets":[0,16]}})",
       16, "less than 2^63 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "begin at 0, got 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "begin at 8, got 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8, "a twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "dtype twice"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "dtype, shape and data_offsets"},
      {R"({"__metadata__":{"k":1}})", 0, "strings in __metadata__"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8, "bytes that are none"},
      {R"([1])", 0, "begins with {"},
      {"", 0, "begins with {"},
  };
  for (const Case& c : cases) {
    const absl::Status status = OpenBytes(FileOf(c.header, c.buffer));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << c.header;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.header;
  }
  EXPECT_THAT(std::string(OpenBytes("1234567").message()), HasSubstr("at least 8 bytes, got 7"));
  EXPECT_THAT(std::string(OpenBytes(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}")).message()),
              HasSubstr("a header of at most 2 bytes"));
}

// Every prefix of a file and every single changed byte of its header gives an error or a file that
// indexes its buffer; none crashes.
TEST(SafetensorsTest, RefusesAHeaderThatNestsAMillionDeep) {
  const std::string deep = "{\"a\":" + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  EXPECT_EQ(OpenBytes(FileOf(deep, 0)).code(), absl::StatusCode::kDataLoss);
}

TEST(SafetensorsTest, SurvivesEveryCutAndFlip) {
  const std::string good = FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                  R"("b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}})",
                                  12);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(OpenBytes(good.substr(0, n)).ok()) << n;
  for (size_t i = 0; i + 12 < good.size(); ++i) {
    for (const char flip : {1, 2, 16, 64}) {
      std::string bad = good;
      bad[i] ^= flip;
      OpenBytes(bad).IgnoreError();
    }
  }
  EXPECT_EQ(OpenBytes(good), absl::OkStatus());
}

}  // namespace
}  // namespace sluice
