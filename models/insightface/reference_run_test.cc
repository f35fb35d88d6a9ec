// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/insightface/reference_run.h"

#include "framework/testing/expect_reference_run.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  ExpectReferenceRun(FaceReferenceRun(), "models/insightface/testdata/reference_run.json",
                     /*learned=*/0.3, "bench/peers/insightface_torch.py");
}

}  // namespace
}  // namespace sluice
