// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/resnet/reference_run.h"

#include "framework/testing/expect_reference_run.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  ExpectReferenceRun(ResNetReferenceRun(), "models/resnet/testdata/reference_run.json",
                     /*learned=*/0.3, "bench/peers/resnet_torch.py");
}

TEST(ReferenceRunTest, HeldOutFiguresArePyTorchsWhateverTheBatch) {
  ExpectReferenceEvaluations(ResNetReferenceRun(), "models/resnet/testdata/reference_run.json",
                             {{"data=1", 1, 1},
                              {"data=1", 2, 12},
                              {"data=2", 1, 8},
                              {"data=3", 1, 7},
                              {"model=2", 1, 64},
                              {"data=2 pipe=2", 2, 4}});
}

}  // namespace
}  // namespace sluice
