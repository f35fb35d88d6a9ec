// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/wide_and_deep/reference_run.h"

#include "framework/testing/expect_reference_run.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  // Of labels that are drawn there is but their share to learn.
  ExpectReferenceRun(WideAndDeepReferenceRun(), "models/wide_and_deep/testdata/reference_run.json",
                     /*learned=*/0.03, "bench/peers/wide_and_deep_torch.py");
}

}  // namespace
}  // namespace sluice
