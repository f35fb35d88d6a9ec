#include "models/resnet/pictures.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/data/encode_testing.h"
#include "framework/data/example.h"
#include "framework/data/framed_records.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

// An IDX file of bytes: of these extents, each byte its place's remainder.
void WriteIdx(const std::string& path, const std::vector<int>& extents, int modulus) {
  std::string bytes = {0, 0, 8, static_cast<char>(extents.size())};
  int count = 1;
  for (const int extent : extents) {
    bytes += {0, 0, static_cast<char>(extent >> 8), static_cast<char>(extent)};
    count *= extent;
  }
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(i % modulus);
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Mnist(const std::string& name, int size, int classes) {
  const std::string folder = Folder(name);
  for (const auto& [part, count] : {std::pair("train", 30), std::pair("t10k", 10)}) {
    WriteIdx(folder + "/" + part + "-images-idx3-ubyte", {count, size, size}, 251);
    WriteIdx(folder + "/" + part + "-labels-idx1-ubyte", {count}, classes);
  }
  return folder;
}

PictureOptions Grey(int64_t size, int64_t classes) {
  PictureOptions options;
  options.image_size = size;
  options.channels = 1;
  options.classes = classes;
  return options;
}

std::string Error(const std::string& data, const PictureOptions& options) {
  return std::string(OpenPictures(data, options).status().message());
}

TEST(PicturesTest, IdxFilesAreLearnedInEpochsAndHeldOutAsTheyAre) {
  const std::string folder = Mnist("idx", 6, 5);
  const auto data = OpenPictures(folder, Grey(6, 5));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->num_samples(), 30);
  EXPECT_EQ(data->held_out->num_samples(), 10);
  EXPECT_EQ(data->order, SampleOrder::kEpochs);
  ASSERT_TRUE(data->baseline.has_value());
  EXPECT_NEAR(data->baseline->value, 1.6094, 1e-4);
  // What is held out is the same whenever it is seen; what is learned from is not.
  const Box whole = {{0, 6}, {0, 6}, {0, 1}};
  const int64_t sample = 3;
  const auto seen = [&](const Dataset& dataset, int64_t position) {
    std::string pixels(36, '\0');
    EXPECT_TRUE(
        dataset.Fill(0, {&sample, 1}, position, whole, reinterpret_cast<std::byte*>(pixels.data()))
            .ok());
    return pixels;
  };
  int changed = 0;
  for (int64_t position = 1; position < 20; ++position) {
    EXPECT_EQ(seen(*data->held_out, position), seen(*data->held_out, 0));
    changed += seen(*data->training, position) != seen(*data->training, 0) ? 1 : 0;
  }
  EXPECT_GT(changed, 10);
}

TEST(PicturesTest, WithoutAugmentationNothingChanges) {
  PictureOptions options = Grey(6, 5);
  options.augment = false;
  const auto data = OpenPictures(Mnist("plain", 6, 5), options);
  ASSERT_TRUE(data.ok()) << data.status();
  const int64_t sample = 7;
  std::string first(36, '\0'), later(36, '\0');
  const Box whole = {{0, 6}, {0, 6}, {0, 1}};
  for (auto [position, to] : {std::pair<int64_t, std::string*>{0, &first}, {5, &later}}) {
    ASSERT_TRUE(
        data->training
            ->Fill(0, {&sample, 1}, position, whole, reinterpret_cast<std::byte*>(to->data()))
            .ok());
  }
  EXPECT_EQ(first, later);
}

TEST(PicturesTest, DrawnOnesNeedNoFolder) {
  PictureOptions options;
  options.image_size = 16;
  options.classes = 7;
  options.synthetic = true;
  const auto data = OpenPictures("", options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->training->fields()[0].shape, (Shape{16, 16, 3}));
  EXPECT_NE(data->training->identity().digest, data->held_out->identity().digest);
}

TEST(PicturesTest, OfRecordsEveryTenthOrSoIsHeldOutOrThePartThatSaysSo) {
  std::string bytes;
  for (int i = 0; i < 60; ++i) {
    const std::vector<uint8_t> pixels(12 * 12 * 3, static_cast<uint8_t>(4 * i));
    AppendFramed(Framing::kTfRecord,
                 *ExampleBytes(Framing::kTfRecord,
                               {{"encoded", std::vector<std::string>{EncodeJpeg(pixels, 12, 12)}},
                                {"label", std::vector<int64_t>{i % 3}}}),
                 &bytes);
  }
  const std::string path = Folder("records") + "/some.tfrecord";
  std::ofstream(path, std::ios::binary) << bytes << "cut";
  PictureOptions options = Grey(8, 3);
  options.channels = 3;
  const auto data = OpenPictures(path, options);
  ASSERT_TRUE(data.ok()) << data.status();
  const int64_t training = data->training->num_samples(), held_out = data->held_out->num_samples();
  EXPECT_EQ(training + held_out, 60);
  EXPECT_GT(held_out, 1);
  EXPECT_LT(held_out, 20);
  EXPECT_EQ(data->lines.back(), "           the last 3 bytes are of a record that is cut short");
  EXPECT_THAT(Error(path, Grey(8, 3)), HasSubstr("expected --channels=3"));
  options.classes = 2;
  EXPECT_THAT(Error(path, options), HasSubstr("expected label below --classes, 2, got 2"));
  options.classes = 3;
  const std::string folder = Folder("parts");
  std::ofstream(folder + "/train-0-of-1", std::ios::binary) << bytes;
  std::ofstream(folder + "/val-0-of-1", std::ios::binary) << bytes << bytes;
  const auto parts = OpenPictures(folder, options);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->training->num_samples(), 60);
  EXPECT_EQ(parts->held_out->num_samples(), 120);
  const std::string text = Folder("text") + "/some.txt";
  std::ofstream(text) << "text";
  EXPECT_THAT(Error(text, options), HasSubstr("expected a file NAME.tfrecord"));
}

TEST(PicturesTest, WhatDoesNotFitIsNamed) {
  const std::string folder = Mnist("sizes", 6, 5);
  EXPECT_EQ(Error(folder, Grey(8, 5)),
            folder + ": expected pictures of --image_size and --channels, [8,8,1], got [6,6,1]");
  EXPECT_EQ(Error(folder, Grey(6, 4)), folder + ": expected labels below --classes, 4, got 4");
  EXPECT_THAT(Error("", Grey(6, 5)), HasSubstr("expected a folder of pictures as --data"));
  EXPECT_THAT(Error("/nowhere/fashion-mnist", Grey(6, 5)),
              HasSubstr("bazel run //tools:dataset -- fetch fashion-mnist brings it"));
  const std::string classes = Folder("classes");
  EXPECT_THAT(Error(classes, Grey(6, 5)), HasSubstr(classes));
  for (const char* name : {"a", "b", "c"}) {
    fs::create_directories(classes + "/" + name);
    std::ofstream(classes + "/" + name + "/1.jpg") << "no picture";
  }
  PictureOptions colour = Grey(6, 2);
  colour.channels = 3;
  EXPECT_EQ(Error(classes, colour),
            classes + ": expected --classes=3, as many as there are class folders, got 2");
  EXPECT_THAT(Error(classes, Grey(6, 3)), HasSubstr("expected --channels=3"));
}

}  // namespace
}  // namespace sluice
