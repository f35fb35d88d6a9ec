#include "framework/data/tabular.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/hash.h"
#include "framework/data/logistic_regression.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

// What a field of a data set is filled with, whole or in a range of its elements.
template <typename T>
std::vector<T> Filled(const Dataset& data, int field, std::vector<int64_t> samples, Range range) {
  std::vector<T> values(samples.size() * range.size());
  EXPECT_EQ(data.Fill(field, samples, 0, {range}, reinterpret_cast<std::byte*>(values.data())),
            absl::OkStatus());
  return values;
}

int32_t Id(const Dataset& data, int field, int64_t sample, int64_t feature) {
  return Filled<int32_t>(data, field, {sample}, {feature, feature + 1})[0];
}

TabularSchema Schema() {
  return {.features = {{.name = "color", .table = "small", .rows = 3},
                       {.name = "shape", .table = "large", .rows = 4, .least = 2},
                       {.name = "both", .table = "small", .rows = 5, .hashed = true}},
          .numbers = {"size", "constant"}};
}

// color, shape, size; held out or not.
TabularBuilder::Parts Build(const SpoolOptions& spool = {}) {
  TabularBuilder builder(Schema(), "things", spool);
  const auto add = [&](bool held_out, float label, const char* color, const char* shape,
                       float size) {
    const uint64_t a = CategoricalValue(color), b = CategoricalValue(shape);
    EXPECT_EQ(builder.Add(held_out, label, {a, b, CrossedValue({a, b})}, {size, 7}),
              absl::OkStatus());
  };
  add(false, 0, "red", "round", 1);
  add(false, 1, "red", "flat", 3);
  add(false, 0, "blue", "round", kMissing);
  add(false, 1, "blue", "round", 1);
  add(false, 0, "red", "tall", 3);
  add(false, 0, "green", "flat", 2);
  // Held out: neither its values nor its sizes count.
  for (int i = 0; i < 9; ++i) add(true, i % 2 == 0 ? 0.0f : 1.0f, "green", "wide", 1000);
  auto parts = std::move(builder).Build();
  EXPECT_EQ(parts.status(), absl::OkStatus());
  return *std::move(parts);
}

TEST(TabularTest, VocabulariesAreOfTheTrainingPartAndTablesOfSeveralFeatures) {
  const TabularBuilder::Parts parts = Build();
  EXPECT_EQ(parts.training->fields()[0].name, "small");
  EXPECT_EQ(parts.training->fields()[1].name, "large");
  EXPECT_EQ(RowsOf(Schema(), "small"), 8);
  EXPECT_EQ(FeaturesOf(Schema(), "small"), 2);
  std::vector<int32_t> colors, shapes;
  for (int64_t i = 0; i < 6; ++i) {
    colors.push_back(Id(*parts.training, 0, i, 0));
    shapes.push_back(Id(*parts.training, 1, i, 0));
    const int32_t both = Id(*parts.training, 0, i, 1);
    EXPECT_GE(both, 3);
    EXPECT_LT(both, 8);
  }
  // Green is the third color, for which there is no row; tall is there but once.
  EXPECT_THAT(colors, ElementsAre(1, 1, 2, 2, 1, 0));
  EXPECT_THAT(shapes, ElementsAre(1, 2, 1, 1, 0, 2));
  EXPECT_EQ(Id(*parts.training, 0, 2, 1), Id(*parts.training, 0, 3, 1));
  EXPECT_EQ(Id(*parts.held_out, 0, 0, 0), 0);
  EXPECT_EQ(Id(*parts.held_out, 1, 0, 0), 0);
}

TEST(TabularTest, NumbersAreNormalisedByTheTrainingPart) {
  const TabularBuilder::Parts parts = Build();
  // Of 1, 3, 1, 3, 2: mean 2, variance 0.8.
  const float one = static_cast<float>(1 / std::sqrt(0.8));
  EXPECT_THAT(Filled<float>(*parts.training, 2, {0, 1, 2, 5}, {0, 1}),
              ElementsAre(-one, one, 0, 0));
  EXPECT_THAT(Filled<float>(*parts.training, 2, {0, 1}, {1, 2}), ElementsAre(0, 0));
  EXPECT_THAT(Filled<float>(*parts.held_out, 2, {0}, {0, 2}), ElementsAre(5, 0));
  EXPECT_EQ(parts.training->fields()[2].name, "numbers");
}

TEST(TabularTest, FillsTheRangeThatADeviceAsksFor) {
  const TabularBuilder::Parts parts = Build();
  EXPECT_THAT(Filled<int32_t>(*parts.training, 0, {1, 2}, {0, 1}), ElementsAre(1, 2));
  EXPECT_THAT(Filled<int32_t>(*parts.training, 0, {3}, {1, 2}),
              ElementsAre(Id(*parts.training, 0, 3, 1)));
  std::vector<float> labels(3);
  ASSERT_EQ(parts.training->Fill(3, {1, 3, 0}, 0, {}, reinterpret_cast<std::byte*>(labels.data())),
            absl::OkStatus());
  EXPECT_THAT(labels, ElementsAre(1, 1, 0));
  EXPECT_EQ(Build().training->identity(), parts.training->identity());
  EXPECT_NE(parts.held_out->identity().digest, parts.training->identity().digest);
}

// Whether samples are kept in memory, in a file, or first here and then there.
TEST(TabularTest, WhereSamplesAreKeptDoesNotCount) {
  const TabularBuilder::Parts memory = Build({.most_in_memory = 1 << 20});
  for (const int64_t most : {0, 24, 100}) {
    const TabularBuilder::Parts file =
        Build({.most_in_memory = most, .folder = ::testing::TempDir()});
    for (const auto& [a, b] : {std::pair(memory.training.get(), file.training.get()),
                               std::pair(memory.held_out.get(), file.held_out.get())}) {
      EXPECT_EQ(a->identity(), b->identity()) << most;
      EXPECT_EQ(a->ones(), b->ones());
      for (int64_t i = 0; i < a->num_samples(); ++i) {
        EXPECT_EQ(Filled<int32_t>(*a, 0, {i}, {0, 2}), Filled<int32_t>(*b, 0, {i}, {0, 2}));
        EXPECT_EQ(Filled<int32_t>(*a, 1, {i}, {0, 1}), Filled<int32_t>(*b, 1, {i}, {0, 1}));
        EXPECT_EQ(Filled<float>(*a, 2, {i}, {0, 2}), Filled<float>(*b, 2, {i}, {0, 2}));
      }
      EXPECT_EQ(*a->Labels({0, 1, 5}), *b->Labels({0, 1, 5}));
    }
  }
}

// Field after field, each of all samples: checkpoints of earlier runs know their data by it.
TEST(TabularTest, TheDigestIsOfWhatAModelSees) {
  const TabularBuilder::Parts parts = Build();
  const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5};
  StableByteHasher digest;
  for (const std::vector<int32_t>& ids : {Filled<int32_t>(*parts.training, 0, all, {0, 2}),
                                          Filled<int32_t>(*parts.training, 1, all, {0, 1})}) {
    digest.Add(ids.data(), ids.size() * sizeof(int32_t));
  }
  for (const std::vector<float>& values :
       {Filled<float>(*parts.training, 2, all, {0, 2}), *parts.training->Labels(all)}) {
    digest.Add(values.data(), values.size() * sizeof(float));
  }
  EXPECT_EQ(parts.training->identity(), (DataIdentity{6 * 6 * 4, digest.digest()}));
}

TEST(TabularTest, RefusesWhatCannotBeLearned) {
  TabularBuilder builder(Schema(), "t.csv");
  EXPECT_EQ(builder.Add(false, 0.5, {1, 2, 3}, {1, 1}).message(),
            "expected a label of 0 or 1, got 0.5");
  EXPECT_EQ(builder.Add(false, 0, {1, 2}, {1, 1}).message(),
            "expected 3 values and 2 numbers, got 2 and 2");
  EXPECT_EQ(builder.Add(false, 0, {1, 2, 3}, {1, HUGE_VALF}).message(),
            "constant: expected a finite number or none, got inf");
  EXPECT_EQ(builder.Add(false, 0, {1, 2, 3}, {1, std::nanf("")}), absl::OkStatus());  // missing
  EXPECT_THAT(std::string(std::move(builder).Build().status().message()),
              HasSubstr("t.csv, to learn from: expected rows with both labels, got 0 of 1 and 1"));
}

// A label that follows from two values together is learned from their cross alone.
TEST(LogisticRegressionTest, LearnsWhatOneValueSaysAndNoCross) {
  TabularBuilder builder({.features = {{.name = "a", .table = "t", .rows = 3},
                                       {.name = "cross", .table = "t", .rows = 5}}},
                         "t");
  for (int i = 0; i < 800; ++i) {
    const uint64_t a = i % 2, b = i / 2 % 2;
    ASSERT_EQ(builder.Add(i >= 600, a != b ? 1.0f : 0.0f, {a, CrossedValue({a, b})}, {}),
              absl::OkStatus());
  }
  const auto parts = std::move(builder).Build();
  ASSERT_TRUE(parts.ok()) << parts.status();
  for (const int64_t features : {1, 2}) {
    const absl::StatusOr<std::vector<float>> logits =
        LogisticRegressionLogits(*parts->training, *parts->held_out, 0, features, /*rows=*/8);
    ASSERT_TRUE(logits.ok()) << logits.status();
    ASSERT_EQ(logits->size(), 200u);
    int right = 0;
    for (size_t i = 0; i < logits->size(); ++i) {
      const int64_t sample = static_cast<int64_t>(i);
      right += ((*logits)[i] > 0) == (parts->held_out->Labels({sample})->at(0) > 0) ? 1 : 0;
      if (features == 1) {
        EXPECT_LT(std::abs((*logits)[i]), 0.5);
      }
    }
    EXPECT_EQ(right == 200, features == 2) << right;
  }
}

}  // namespace
}  // namespace sluice
