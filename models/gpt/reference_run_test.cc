// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/gpt/reference_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "framework/checkpoint/checkpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr char kText[] = "models/gpt/testdata/fixed.txt";
constexpr char kRecord[] = "models/gpt/testdata/reference_run.json";
constexpr double kBound = 1e-4;  // relative

double Difference(double expected, double got) {
  const double difference = std::fabs(got - expected) / std::fabs(expected);
  return std::isnan(difference) ? HUGE_VAL : difference;
}

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  const absl::StatusOr<ReferenceRunRecord> record = ReadReferenceRunRecord(kRecord);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_THAT(record->peer, ::testing::StartsWith("torch "));
  auto reference_run = ReferenceRun::Start(kText);
  ASSERT_TRUE(reference_run.ok()) << reference_run.status();
  ASSERT_EQ((*reference_run)->batches_digest(), record->batches_digest)
      << "the record is of other batches; bench/peers/gpt_torch.py --record writes a new one";
  const auto initial = (*reference_run)->InitialDigest();
  ASSERT_TRUE(initial.ok()) << initial.status();
  const auto figures = (*reference_run)->Train();
  ASSERT_TRUE(figures.ok()) << figures.status();
  double worst_loss = 0, worst_norm = 0;
  for (int64_t step = 0; step < kReferenceRunSteps; ++step) {
    const double loss = Difference(record->figures.losses[step], figures->losses[step]);
    const double norm = Difference(record->figures.grad_norms[step], figures->grad_norms[step]);
    EXPECT_LE(loss, kBound) << "loss of step " << step << ": " << figures->losses[step];
    EXPECT_LE(norm, kBound) << "norm of step " << step << ": " << figures->grad_norms[step];
    worst_loss = std::max(worst_loss, loss);
    worst_norm = std::max(worst_norm, norm);
  }
  EXPECT_LT(figures->losses.back(), figures->losses.front() - 1) << "nothing was learned";
  std::printf("%s of %s: largest relative difference of losses %.1e, of gradient norms %.1e\n",
              record->peer.c_str(), record->date.c_str(), worst_loss, worst_norm);
  if (HasFailure() && *initial != record->initial_digest) {
    std::printf("the initial values are not those of the record: %s, expected %s\n",
                initial->c_str(), record->initial_digest.c_str());
  }
}

TEST(ReferenceRunTest, WritesWhatThePeerReads) {
  auto reference_run = ReferenceRun::Start(kText);
  ASSERT_TRUE(reference_run.ok()) << reference_run.status();
  const std::string folder = ::testing::TempDir() + "/reference_run";
  const absl::Status written = (*reference_run)->WriteInputs(folder);
  ASSERT_TRUE(written.ok()) << written;
  const auto checkpoint = Checkpoint::Load(folder + "/step-000000");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->meta().options.at("hidden"), "128");
  EXPECT_EQ(checkpoint->meta().options.at("batches_digest"), (*reference_run)->batches_digest());
  const auto batches = SafetensorsReader::Open(folder + "/batches.safetensors");
  ASSERT_TRUE(batches.ok()) << batches.status();
  const auto tokens = batches->Read("tokens"), labels = batches->Read("labels");
  ASSERT_TRUE(tokens.ok() && labels.ok());
  EXPECT_EQ(tokens->shape, (Shape{kReferenceRunSteps, 8, 64}));
  // What follows a byte is the next byte, in the last batch too.
  const int64_t row = (kReferenceRunSteps * 8 - 1) * 64;
  for (int64_t i = 0; i < 63; ++i) {
    EXPECT_EQ(labels->data<int32_t>()[row + i], tokens->data<int32_t>()[row + i + 1]);
  }
  const auto rates = batches->Read("learning_rate");
  ASSERT_TRUE(rates.ok());
  EXPECT_FLOAT_EQ(rates->data<float>()[0], 1e-3f / 20);
  EXPECT_FLOAT_EQ(rates->data<float>()[kReferenceRunSteps - 1], 1e-3f);
}

TEST(ReferenceRunTest, RecordsThatAreNotWholeAreNamed) {
  const std::string path = ::testing::TempDir() + "/record.json";
  ReferenceRunRecord record;
  record.figures.losses.assign(kReferenceRunSteps, 1.5);
  record.figures.grad_norms.assign(kReferenceRunSteps - 1, 2.5);
  ASSERT_TRUE(WriteReferenceRunRecord(path, record).ok());
  EXPECT_THAT(std::string(ReadReferenceRunRecord(path).status().message()),
              ::testing::HasSubstr("grad_norms: expected 20 numbers, got 19"));
}

}  // namespace
}  // namespace sluice
