#include "framework/testing/expect_reference_run.h"

#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {

void ExpectReferenceRun(const ReferenceRunCase& of, const std::string& record, double learned,
                        const std::string& script) {
  const absl::StatusOr<ReferenceRunRecord> read = ReadReferenceRunRecord(record);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->peer, ::testing::StartsWith("torch "));
  EXPECT_LT(read->figures.losses.back(), read->figures.losses.front() - learned)
      << "nothing was learned";
  ReferenceRunDifferences largest;
  const absl::Status same = CheckReferenceRun(of, *read, /*bound=*/1e-4, &largest);
  EXPECT_TRUE(same.ok()) << same << "\n" << script << " --record writes another record";
  std::printf("%s of %s: largest relative difference of losses %.1e, of gradient norms %.1e\n",
              read->peer.c_str(), read->date.c_str(), largest.loss, largest.grad_norm);
}

void ExpectReferenceEvaluations(const ReferenceRunCase& of, const std::string& record,
                                const std::vector<EvaluationLayout>& layouts) {
  EXPECT_FALSE(of.evaluations.empty());
  for (const ReferenceEvaluation& evaluation : of.evaluations) {
    for (const EvaluationLayout& layout : layouts) {
      EXPECT_EQ(CheckReferenceEvaluation(evaluation, record, layout, /*bound=*/1e-6),
                absl::OkStatus());
    }
  }
}

}  // namespace sluice
