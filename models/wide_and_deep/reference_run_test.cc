// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/wide_and_deep/reference_run.h"

#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr char kRecord[] = "models/wide_and_deep/testdata/reference_run.json";
constexpr double kBound = 1e-4;  // relative

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  const absl::StatusOr<ReferenceRunRecord> record = ReadReferenceRunRecord(kRecord);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_THAT(record->peer, ::testing::StartsWith("torch "));
  EXPECT_LT(record->figures.losses.back(), record->figures.losses.front() - 0.03)
      << "nothing was learned";  // of labels that are drawn there is but their share
  ReferenceRunDifferences largest;
  const absl::Status same = CheckReferenceRun(WideAndDeepReferenceRun(), *record, kBound, &largest);
  EXPECT_TRUE(same.ok()) << same
                         << "\nbench/peers/wide_and_deep_torch.py --record writes another record";
  std::printf("%s of %s: largest relative difference of losses %.1e, of gradient norms %.1e\n",
              record->peer.c_str(), record->date.c_str(), largest.loss, largest.grad_norm);
}

}  // namespace
}  // namespace sluice
