#include "framework/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/batch.h"
#include "framework/data/encode_testing.h"
#include "framework/data/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class ImageFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/folder_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories((fs::path(root_) / name).parent_path());
    std::ofstream(root_ + "/" + name, std::ios::binary) << bytes;
  }
  // Of one color, which PNG keeps and JPEG nearly does.
  void Picture(const std::string& name, uint8_t color, int side = 20) {
    const std::vector<uint8_t> pixels(3 * side * side, color);
    Write(name, name.back() == 'g' && name[name.size() - 3] == 'p'
                    ? EncodePng(pixels, side, side)
                    : EncodeJpeg(pixels, side, side));
  }
  std::string Error() { return std::string(ListImageFolder(root_).status().message()); }
  // A picture that compresses badly.
  static std::string Noise() {
    std::vector<uint8_t> pixels(30000);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i * 7 % 251);
    return EncodeJpeg(pixels, 100, 100);
  }
  // All files of the folder, whatever part they are in.
  std::unique_ptr<PhotoDataset> OpenAll(const PhotoView& view = SmallView()) {
    const auto list = ListImageFolder(root_);
    EXPECT_TRUE(list.ok()) << list.status();
    std::vector<ImageFile> files = list->training;
    files.insert(files.end(), list->held_out.begin(), list->held_out.end());
    std::sort(files.begin(), files.end(),
              [](const ImageFile& a, const ImageFile& b) { return a.path < b.path; });
    auto dataset =
        PhotoDataset::Open("pictures", std::make_unique<FolderPhotos>(root_, files), view);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return dataset.ok() ? *std::move(dataset) : nullptr;
  }
  static PhotoView SmallView() {
    PhotoView view;
    view.height = view.width = 8;
    return view;
  }
  std::string root_;
};

std::vector<std::string> Paths(const std::vector<ImageFile>& files) {
  std::vector<std::string> paths;
  for (const ImageFile& file : files) paths.push_back(file.path);
  return paths;
}

TEST_F(ImageFolderTest, TrainAndValAreTheParts) {
  for (const char* name : {"train/dog/a.JPEG", "train/dog/more/b.png", "train/cat/c.jpg",
                           "val/dog/d.jpg", "train/.hidden/e.jpg"}) {
    Write(name, "12345");
  }
  Write("train/cat/readme.txt", "");
  Write("train/notes.txt", "");
  const auto list = ListImageFolder(root_);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(Paths(list->training),
              ElementsAre("train/cat/c.jpg", "train/dog/a.JPEG", "train/dog/more/b.png"));
  EXPECT_THAT(Paths(list->held_out), ElementsAre("val/dog/d.jpg"));
  EXPECT_EQ(list->training[0].label, 0);
  EXPECT_EQ(list->training[2].label, 1);
  EXPECT_EQ(list->held_out[0].label, 1);
  EXPECT_EQ(list->training[1].bytes, 5);
  EXPECT_EQ(DescribeLeftOut(list->left_out), "1 .txt");
}

// Each format of decode_image.h, whatever a name says; others are counted by their endings.
TEST_F(ImageFolderTest, PicturesOfEveryFormat) {
  const std::string golden = "framework/data/testdata/images/";
  const auto copy = [&](const std::string& from, const std::string& to) {
    Write(to, *ReadFile(golden + from));
  };
  copy("lossy.webp", "a/1.webp"), copy("animated.gif", "a/2.GIF"), copy("rgb.bmp", "a/3.bmp");
  copy("lzw.tif", "b/1.tif"), copy("jpeg.tif", "b/2.TIFF"), copy("lossless.webp", "b/3.jpg");
  for (const char* name : {"a/4.heic", "a/5.HEIC", "b/4.avif", "b/5.heic", "b/Thumbs.db", "b/notes",
                           "a/.DS_Store", "b/x.svg", "b/y.txt"}) {
    Write(name, "x");
  }
  const auto list = ListImageFolder(root_);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(DescribeLeftOut(list->left_out),
            "3 .heic, 1 .avif, 1 .db, 1 .svg, 1 .txt, 1 of other endings");
  const auto dataset = OpenAll();
  ASSERT_NE(dataset, nullptr);
  ASSERT_EQ(dataset->num_samples(), 6);
  std::vector<uint8_t> pixels(6 * 8 * 8 * 3);
  ASSERT_TRUE(dataset
                  ->Fill(0, {0, 1, 2, 3, 4, 5}, 0, {{0, 8}, {0, 8}, {0, 3}},
                         reinterpret_cast<std::byte*>(pixels.data()))
                  .ok());
  EXPECT_EQ(dataset->damaged(), 0);
}

TEST_F(ImageFolderTest, ElseATenthIsHeldOutByPath) {
  for (int i = 0; i < 400; ++i) Write(absl::StrCat(i % 2 == 0 ? "a/" : "b/", i, ".jpg"), "x");
  const auto list = ListImageFolder(root_);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->training.size() + list->held_out.size(), 400);
  EXPECT_NEAR(static_cast<double>(list->held_out.size()), 40, 18);
  const std::vector<std::string> before = Paths(list->held_out);
  Write("a/another.jpg", "x");
  std::vector<std::string> after = Paths(ListImageFolder(root_)->held_out);
  after.erase(std::remove(after.begin(), after.end(), "a/another.jpg"), after.end());
  EXPECT_EQ(after, before);
}

TEST_F(ImageFolderTest, FoldersThatAreNoneAreRefused) {
  EXPECT_TRUE(absl::IsNotFound(ListImageFolder(root_ + "/none").status()));
  EXPECT_EQ(Error(),
            "data: " + root_ + ": expected a folder for each of two classes or more, got none");
  Write("a.jpg", "x");
  EXPECT_THAT(Error(), HasSubstr("got none"));
  Write("cat/a.jpg", "x");
  EXPECT_THAT(Error(), HasSubstr("of two classes or more, got cat alone"));
  Write("dog/readme.txt", "x");
  EXPECT_EQ(Error(), "data: " + root_ +
                         "/dog: expected files .jpg, .jpeg, .png, .webp, .gif, .bmp, .tif, .tiff "
                         "of this class, got "
                         "1 .txt");
  Write("dog/a.jpg", "x");
  EXPECT_TRUE(ListImageFolder(root_).ok());
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "val/c/1.jpg"}) Write(name, "x");
  EXPECT_EQ(Error(), "data: " + root_ + "/val: expected the classes of \"train\", got c");
  EXPECT_THAT(std::string(PhotoDataset::Open(
                              "training pictures",
                              std::make_unique<FolderPhotos>(root_, std::vector<ImageFile>()), {})
                              .status()
                              .message()),
              HasSubstr("training pictures: expected at least one picture in"));
}

TEST_F(ImageFolderTest, ASampleIsAPictureAndItsClass) {
  Picture("a/1.png", 10);
  Picture("a/2.jpg", 90, 33);
  Picture("b/3.jpeg", 200, 50);
  const auto data = OpenAll();
  ASSERT_NE(data, nullptr);
  Batch batch(*data, 3);
  EXPECT_THAT(batch.names, ElementsAre("images", "labels"));
  EXPECT_EQ(batch.tensors[0].dtype, DType::kU8);
  EXPECT_EQ(batch.tensors[0].shape, Shape({3, 8, 8, 3}));
  ASSERT_TRUE(ReadBatch(*data, {SampleOrder::kSpread, 0, 3}, 0, &batch).ok());
  const auto* pixels = batch.tensors[0].data<uint8_t>();
  for (int i = 0; i < 3 * 192; ++i) {
    ASSERT_NEAR(pixels[i], i < 192 ? 10 : i < 384 ? 90 : 200, i < 192 ? 0 : 2);
  }
  const auto* labels = batch.tensors[1].data<int32_t>();
  EXPECT_THAT(std::vector<int32_t>(labels, labels + 3), ElementsAre(0, 0, 1));
}

// What a file holds counts, and not its name.
TEST_F(ImageFolderTest, AWrongEndingDoesNotMatter) {
  Write("a/1.jpg", EncodePng(std::vector<uint8_t>(300, 77), 10, 10));
  Write("b/2.png", EncodeJpeg(std::vector<uint8_t>(300, 77), 10, 10));
  const auto data = OpenAll();
  Batch batch(*data, 2);
  ASSERT_TRUE(ReadBatch(*data, {SampleOrder::kSpread, 0, 2}, 0, &batch).ok());
  for (const std::byte pixel : batch.tensors[0].bytes) {
    ASSERT_NEAR(std::to_integer<int>(pixel), 77, 1);
  }
  EXPECT_EQ(data->damaged(), 0);
}

TEST_F(ImageFolderTest, FewDamagedFilesAreNamedAndGray) {
  for (int i = 0; i < 199; ++i) Picture(absl::StrCat(i % 2 == 0 ? "a/" : "b/", i, ".png"), 5, 3);
  const std::string whole = Noise();
  Write("a/cut.jpg", whole.substr(0, whole.size() / 2));
  const auto data = OpenAll();
  ASSERT_NE(data, nullptr);  // its header is right
  EXPECT_EQ(data->damaged(), 0);
  Batch batch(*data, 200);
  CaptureStderr();
  const absl::Status status = ReadBatch(*data, {SampleOrder::kSpread, 0, 200}, 0, &batch);
  const absl::Status again = ReadBatch(*data, {SampleOrder::kSpread, 0, 200}, 0, &batch);
  const std::string warnings = GetCapturedStderr();
  EXPECT_TRUE(status.ok() && again.ok()) << status;
  EXPECT_EQ(data->damaged(), 1);
  EXPECT_THAT(warnings, HasSubstr("pictures: a/cut.jpg is seen as gray: the JPEG file is damaged"));
  EXPECT_THAT(warnings, HasSubstr("; 1 of 200 are damaged so far\n"));
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1);
  const auto& bytes = batch.tensors[0].bytes;
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{128}), 192);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{5}), 199 * 192);
}

TEST_F(ImageFolderTest, ManyDamagedFilesAreAnError) {
  for (int i = 0; i < 300; ++i) Picture(absl::StrCat(i % 2 == 0 ? "a/" : "b/", i, ".png"), 5, 3);
  const std::string whole = Noise();
  for (int i = 0; i < 4; ++i) Write(absl::StrCat("a/cut", i, ".jpg"), whole.substr(0, 5000));
  const auto data = OpenAll();
  ASSERT_NE(data, nullptr);
  Batch batch(*data, 304);
  CaptureStderr();
  const absl::Status status = ReadBatch(*data, {SampleOrder::kSpread, 0, 304}, 0, &batch);
  GetCapturedStderr();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("pictures: expected at most one damaged picture in 100, got 4 of 304 in " + root_ +
                ": a/cut0.jpg, a/cut1.jpg, a/cut2.jpg, ..; of a/cut3.jpg: the JPEG "
                "file is damaged: "));
}

TEST_F(ImageFolderTest, AFolderOfSomethingElseIsRefusedAtOnce) {
  for (int i = 0; i < 20; ++i) Write(absl::StrCat(i % 2 == 0 ? "a/" : "b/", i, ".jpg"), "<html>");
  const auto list = ListImageFolder(root_);
  ASSERT_TRUE(list.ok());
  CaptureStderr();
  const auto data = PhotoDataset::Open(
      "pictures", std::make_unique<FolderPhotos>(root_, list->training), SmallView());
  GetCapturedStderr();
  EXPECT_THAT(std::string(data.status().message()),
              HasSubstr("expected a picture (JPEG, PNG, WebP, GIF, TIFF, BMP), got text"));
}

TEST_F(ImageFolderTest, APartOfAPictureIsThePartOfTheWhole) {
  std::vector<uint8_t> pixels(3 * 60 * 40);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i % 253);
  Write("a/1.png", EncodePng(pixels, 60, 40));
  Picture("b/2.png", 5);
  PhotoView view = SmallView();
  view.random = true;
  view.contrast = 0.5;
  const auto data = OpenAll(view);
  const auto filled = [&](int64_t position, const Box& box) {
    std::vector<uint8_t> part(Volume(box) + 1, 222);
    EXPECT_TRUE(data->Fill(0, {0}, position, box, reinterpret_cast<std::byte*>(part.data())).ok());
    EXPECT_EQ(part.back(), 222);
    part.pop_back();
    return part;
  };
  const Shape shape = {8, 8, 3};
  for (int position = 0; position < 10; ++position) {
    const std::vector<uint8_t> whole = filled(position, WholeBox(shape));
    for (const Box& box : {Box{{2, 7}, {0, 8}, {0, 3}}, Box{{0, 8}, {3, 5}, {0, 3}},
                           Box{{1, 2}, {7, 8}, {1, 3}}, Box{{3, 3}, {0, 8}, {0, 3}}}) {
      std::vector<uint8_t> expected;
      ForEachRow(WholeBox(shape), box, [&](int64_t offset, int64_t length) {
        expected.insert(expected.end(), whole.begin() + offset, whole.begin() + offset + length);
      });
      ASSERT_EQ(filled(position, box), expected) << BoxToString(box);
    }
  }
}

TEST_F(ImageFolderTest, ThreadsReadAtOnceWhatOneReads) {
  for (int i = 0; i < 12; ++i) Write(absl::StrCat(i % 2 == 0 ? "a/" : "b/", i, ".jpg"), Noise());
  PhotoView view = SmallView();
  view.random = true;
  const auto data = OpenAll(view);
  const SampleOrder order = {SampleOrder::kEpochs, 3};
  Batch expected(*data, 60);
  ASSERT_TRUE(ReadBatch(*data, order, 0, &expected).ok());
  // A row is seen as its own position says.
  Batch one(*data, 1);
  for (int64_t row = 0; row < 60; ++row) {
    ASSERT_TRUE(ReadBatch(*data, order, row, &one).ok());
    ASSERT_TRUE(std::equal(one.tensors[0].bytes.begin(), one.tensors[0].bytes.end(),
                           expected.tensors[0].bytes.begin() + row * 192))
        << row;
  }
  std::vector<Batch> batches(4, Batch(*data, 60));
  std::vector<std::thread> threads;
  for (Batch& batch : batches) {
    threads.emplace_back([&] { EXPECT_TRUE(ReadBatch(*data, order, 0, &batch).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Batch& batch : batches) EXPECT_EQ(batch.tensors[0].bytes, expected.tensors[0].bytes);
}

// Two files of one size, so that the sizes say nothing.
TEST_F(ImageFolderTest, IdentityIsOfBytesLabelsAndOrderAndOfNoPath) {
  Picture("a/1.png", 10);
  Picture("a/2.png", 20);
  Picture("b/3.png", 30);
  const DataIdentity identity = OpenAll()->identity();
  EXPECT_EQ(OpenAll()->identity(), identity);
  EXPECT_GT(identity.bytes, 0);
  const std::string bytes = *ReadFile(root_ + "/a/2.png");
  for (const size_t byte : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    std::string changed = bytes;
    changed[byte] ^= 1;
    Write("a/2.png", changed);
    CaptureStderr();
    const auto files = ListImageFolder(root_);
    const DataParts parts = FolderPhotos(root_, files->training).Parts();
    EXPECT_EQ(std::accumulate(parts.sizes.begin(), parts.sizes.end(), int64_t{0}), identity.bytes);
    EXPECT_NE(*Identify(FolderPhotos(root_, files->training).Parts(), {}), identity) << byte;
    GetCapturedStderr();
  }
  Write("a/2.png", bytes);
  EXPECT_EQ(OpenAll()->identity(), identity);
  fs::rename(root_ + "/a/2.png", root_ + "/b/0.png");  // the same order
  EXPECT_NE(OpenAll()->identity(), identity);
  fs::rename(root_ + "/b/0.png", root_ + "/a/0.png");  // another order
  EXPECT_NE(OpenAll()->identity(), identity);
  fs::rename(root_ + "/a/0.png", root_ + "/a/9.png");
  EXPECT_EQ(OpenAll()->identity(), identity);
  const std::string elsewhere = root_ + "_elsewhere";
  fs::remove_all(elsewhere);
  fs::rename(root_, elsewhere);
  root_ = elsewhere;
  EXPECT_EQ(OpenAll()->identity(), identity);
}

// More than one in a hundred, which would end training; the first 100 are named.
TEST_F(ImageFolderTest, DamagedHeldOutPicturesAreNamedAndEndNothing) {
  for (int i = 0; i < 20; ++i) Picture(absl::StrCat("b/", i, ".png"), 5, 3);
  const std::string whole = Noise();
  for (int i = 0; i < 102; ++i) Write(absl::StrCat("a/cut", i, ".jpg"), whole.substr(0, 5000));
  const auto list = ListImageFolder(root_);
  std::vector<ImageFile> files = list->training;
  files.insert(files.end(), list->held_out.begin(), list->held_out.end());
  const auto opened =
      PhotoDataset::Open("held-out pictures", std::make_unique<FolderPhotos>(root_, files),
                         SmallView(), PhotoUse::kHeldOut);
  ASSERT_TRUE(opened.ok()) << opened.status();  // the headers are right
  Batch batch(**opened, 122);
  CaptureStderr();
  const absl::Status status = ReadBatch(**opened, {SampleOrder::kSpread, 0, 122}, 0, &batch);
  const std::string warnings = GetCapturedStderr();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*opened)->damaged(), 102);
  const auto& bytes = batch.tensors[0].bytes;
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{128}), 102 * 192);
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 100);
  EXPECT_THAT(warnings, HasSubstr("held-out pictures: a/cut"));
  EXPECT_THAT(warnings, HasSubstr("; 1 of 122 are damaged so far\n"));
  EXPECT_THAT(warnings, HasSubstr("; 100 of 122 are damaged so far; others will not be named\n"));
}

// What is no picture at all is no held-out data, whatever becomes of a few.
TEST_F(ImageFolderTest, HeldOutFilesOfSomethingElseAreRefusedAtOnce) {
  Picture("a/1.png", 5);
  Write("a/2.png", "<html>");
  Write("b/3.png", "<html>");
  const auto open = [&] {
    const auto list = ListImageFolder(root_);
    std::vector<ImageFile> files = list->training;
    files.insert(files.end(), list->held_out.begin(), list->held_out.end());
    CaptureStderr();
    const auto opened =
        PhotoDataset::Open("held-out pictures", std::make_unique<FolderPhotos>(root_, files),
                           SmallView(), PhotoUse::kHeldOut);
    GetCapturedStderr();
    return std::string(opened.status().message());
  };
  EXPECT_THAT(open(), HasSubstr("held-out pictures: expected at most half of the pictures to be "
                                "damaged, got 2 of 3 in " +
                                root_ + ": a/2.png, b/3.png; of b/3.png: expected a picture"));
  Picture("b/4.png", 5);
  EXPECT_EQ(open(), "");
}

}  // namespace
}  // namespace sluice
