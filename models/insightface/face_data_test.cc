#include "models/insightface/face_data.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/insightface/insightface.h"

namespace sluice {
namespace {

constexpr int64_t kPictures = 50, kSize = 16;

// Of ten identities; a picture is its identity's, and noise that is nearly as strong.
VerificationSet DrawnSet() {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> shade(0, 120);
  std::vector<std::vector<int>> identities(10, std::vector<int>(kSize * kSize * 3));
  for (std::vector<int>& identity : identities) {
    for (int& pixel : identity) pixel = shade(random);
  }
  VerificationSet set;
  set.name = "drawn";
  set.images.shape = {kSize, kSize, 3};
  for (int64_t i = 0; i < kPictures; ++i) {
    const int64_t identity = i % 10;
    for (const int pixel : identities[identity]) {
      set.images.pixels.push_back(static_cast<uint8_t>(pixel + shade(random)));
    }
    set.images.labels.push_back(static_cast<int32_t>(identity));
  }
  set.pairs = *DrawPairs(set.images.labels, 80, /*seed=*/1);
  return set;
}

absl::StatusOr<Verification> VerifyOn(const std::string& mesh, int64_t batch,
                                      int64_t micro_batches = 1) {
  FaceConfig config;
  config.network = "mobilefacenet";
  config.width = 4;
  config.embedding = 16;
  config.image_size = kSize;
  config.batch = batch;
  Graph graph;
  EXPECT_EQ(BuildFaceEmbed(config, &graph), absl::OkStatus());
  SessionOptions options;
  options.mesh = mesh;
  options.micro_batches = micro_batches;
  const auto session = Session::Start({{"embed", &graph}}, options);
  EXPECT_TRUE(session.ok()) << session.status();
  return VerifyBy(session->get(), DrawnSet(), {.most_samples = 80, .batch = batch});
}

// Whatever divides the pictures or not: 50 in batches of 50, of 7 and of 64, and on several
// devices.
TEST(FaceDataTest, EveryPictureCountsOnceWhateverTheBatch) {
  const auto whole = VerifyOn("data=1", kPictures);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_GT(whole->accuracy, 0.55);
  EXPECT_LT(whole->accuracy, 0.99);
  const struct {
    std::string mesh;
    int64_t batch, micro_batches;
  } cases[] = {{"data=1", 2, 1}, {"data=1", 7, 1},  {"data=1", 64, 1},
               {"data=2", 6, 1}, {"data=1", 12, 3}, {"data=2 model=2", 8, 1}};
  for (const auto& [mesh, batch, micro_batches] : cases) {
    const auto got = VerifyOn(mesh, batch, micro_batches);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->accuracy, whole->accuracy) << mesh << ", batch " << batch;
    ASSERT_EQ(got->roc.size(), whole->roc.size()) << mesh << ", batch " << batch;
    for (size_t i = 0; i < got->roc.size(); ++i) {
      EXPECT_EQ(got->roc[i].true_positives, whole->roc[i].true_positives);
    }
  }
}

}  // namespace
}  // namespace sluice
