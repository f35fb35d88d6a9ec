// A model that is no GPT, which is its own peer here.
#include "framework/testing/reference_run.h"

#include <algorithm>
#include <memory>
#include <string>

#include "framework/checkpoint/checkpoint.h"
#include "framework/testing/models.h"
#include "framework/testing/points.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ReferenceRunCase Mlp(uint64_t data_seed = 1) {
  ReferenceRunCase mlp;
  mlp.build = [](Graph* graph) {
    MlpOptions options;
    options.optimizer.clip = 1;
    return BuildMlp(graph, options);
  };
  mlp.open_data = [] { return std::make_shared<const Points>(); };
  mlp.order.seed = data_seed;
  mlp.batch = MlpOptions().batch;
  mlp.schedule.peak = 1e-2;
  mlp.options = {{"hidden", "12"}};
  return mlp;
}

absl::StatusOr<ReferenceRunRecord> RecordOf(const ReferenceRunCase& of, const std::string& folder) {
  const absl::Status written = WriteReferenceRun(of, folder);
  if (!written.ok()) return written;
  return ReadReferenceRunRecord(folder + "/sluice.json");
}

TEST(ReferenceRunTest, ARunEqualsItsOwnRecordAndNoOther) {
  const std::string folder = ::testing::TempDir() + "/equal";
  auto record = RecordOf(Mlp(), folder);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->peer, "sluice");
  EXPECT_LT(record->figures.losses.back(), record->figures.losses.front());
  ReferenceRunDifferences largest;
  absl::Status same = CheckReferenceRun(Mlp(), *record, 0, &largest);
  EXPECT_TRUE(same.ok()) << same;
  EXPECT_EQ(largest.loss, 0);

  ReferenceRunRecord other = *record;
  other.figures.grad_norms[7] *= 1.001;
  same = CheckReferenceRun(Mlp(), other, 1e-4, &largest);
  EXPECT_EQ(same.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(same.message()),
              AllOf(HasSubstr("step 7, grad_norm: expected"), HasSubstr(", from the record's")));
  EXPECT_NEAR(largest.grad_norm, 1e-3, 1e-5);

  other = *record;
  other.figures.losses[0] = 0;  // no difference relative to it
  other.initial_digest = "another";
  same = CheckReferenceRun(Mlp(), other, 1e-4, &largest);
  EXPECT_THAT(std::string(same.message()),
              AllOf(HasSubstr("step 0, loss: expected 0"), HasSubstr("not from the record's")));

  same = CheckReferenceRun(Mlp(/*data_seed=*/2), *record, 1e-4, &largest);
  EXPECT_EQ(same.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReferenceRunTest, WritesEveryFieldOfAllBatches) {
  const std::string folder = ::testing::TempDir() + "/inputs";
  auto run = ReferenceRun::Start(Mlp());
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->WriteInputs(folder), absl::OkStatus());
  const auto checkpoint = Checkpoint::Load(folder + "/step-000000");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->meta().options.at("hidden"), "12");
  EXPECT_EQ(checkpoint->meta().options.at("batches_digest"), (*run)->batches_digest());
  const auto batches = SafetensorsReader::Open(folder + "/batches.safetensors");
  ASSERT_TRUE(batches.ok()) << batches.status();
  const auto x = batches->Read("x"), label = batches->Read("label");
  ASSERT_TRUE(x.ok() && label.ok());
  EXPECT_EQ(x->dtype, DType::kF32);
  EXPECT_EQ(x->shape, (Shape{kReferenceRunSteps, 8, kPointWidth}));
  EXPECT_EQ(label->dtype, DType::kI32);
  EXPECT_EQ(label->shape, (Shape{kReferenceRunSteps, 8}));
  const float* last = x->data<float>() + (kReferenceRunSteps * 8 - 1) * kPointWidth;
  EXPECT_EQ(label->data<int32_t>()[kReferenceRunSteps * 8 - 1],
            std::max_element(last, last + kPointWidth) - last);
}

TEST(ReferenceRunTest, RecordsThatAreNotWholeAreNamed) {
  const std::string path = ::testing::TempDir() + "/record.json";
  ReferenceRunRecord record;
  record.figures.losses.assign(kReferenceRunSteps, 1.5);
  record.figures.grad_norms.assign(kReferenceRunSteps - 1, 2.5);
  ASSERT_TRUE(WriteReferenceRunRecord(path, record).ok());
  EXPECT_THAT(std::string(ReadReferenceRunRecord(path).status().message()),
              HasSubstr("grad_norms: expected 20 numbers, got 19"));
}

}  // namespace
}  // namespace sluice
