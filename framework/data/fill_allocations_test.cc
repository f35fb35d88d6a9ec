// What filling a batch allocates once the first one has been filled.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/batch.h"
#include "framework/data/encode_testing.h"
#include "framework/data/image_dataset.h"
#include "framework/data/image_folder.h"
#include "framework/data/masked_text.h"
#include "framework/data/text_dataset.h"
#include "framework/testing/allocations.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kRows = 16;
constexpr SampleOrder kOrder = {SampleOrder::kEpochs, 3};

Allocations OfThirdBatch(const Dataset& data) {
  Batch batch(data, kRows);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(ReadBatch(data, kOrder, 0, &batch).ok());
  StartCountingAllocations();
  const absl::Status status = ReadBatch(data, kOrder, 0, &batch);
  const Allocations allocations = CountedAllocations();
  EXPECT_TRUE(status.ok()) << status;
  return allocations;
}

TEST(FillAllocationsTest, PicturesInMemoryNone) {
  LabeledImages images = {{8, 9, 3}, std::vector<uint8_t>(8 * 9 * 3 * 50), {}};
  images.labels.resize(50);
  const auto data = ImageDataset::Create("pictures", images, {2, true, 1});
  ASSERT_TRUE(data.ok()) << data.status();
  const Allocations allocations = OfThirdBatch(*data);
  EXPECT_EQ(allocations.own, 0);
}

TEST(FillAllocationsTest, MaskedTextNone) {
  const auto vocabulary =
      WordPiece::Parse("pieces", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nc\n.\n");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  std::vector<std::string> documents(5);
  for (std::string& document : documents) {
    for (int i = 0; i < 500; ++i) document += i % 7 == 0 ? "c. " : i % 3 == 0 ? "abb " : "a ";
  }
  const auto data = MaskedText::Create("text", documents, *vocabulary, {64, 10});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(OfThirdBatch(*data).own, 0);
}

TEST(FillAllocationsTest, TokensInFilesNone) {
  const std::string path = ::testing::TempDir() + "/tokens.bin";
  std::ofstream(path, std::ios::binary).close();
  std::filesystem::resize_file(path, 1 << 20);
  auto tokens = TokenSequence::Open({path}, {1000, "some"});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_TRUE(tokens->Identify().ok());
  const auto data = TokenFileDataset::Create("tokens", *std::move(tokens), 3000);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(OfThirdBatch(*data).own, 0);
}

// libjpeg takes a dozen blocks a picture, none of which is as large as the picture.
TEST(FillAllocationsTest, FilesWhatTheirLibraryTakes) {
  const std::string root = ::testing::TempDir() + "/photographs";
  std::vector<ImageFile> files;
  for (int i = 0; i < kRows; ++i) {
    const int side = 300 + i;
    const std::string file = EncodeJpeg(std::vector<uint8_t>(3 * side * side, 90), side, side);
    files.push_back({absl::StrCat(i, ".jpg"), static_cast<int64_t>(file.size()), i});
    std::filesystem::create_directories(root);
    std::ofstream(root + "/" + files.back().path, std::ios::binary) << file;
  }
  PhotoView view;
  view.random = true;
  view.contrast = 0.4;
  const auto data =
      PhotoDataset::Open("pictures", std::make_unique<FolderPhotos>(root, files), view);
  ASSERT_TRUE(data.ok()) << data.status();
  const Allocations allocations = OfThirdBatch(**data);
  if (!kCountsAllocations) return;
  EXPECT_LE(allocations.own, 16 * kRows);
  EXPECT_LT(allocations.largest_own, 3 * 200 * 200);
}

}  // namespace
}  // namespace sluice
