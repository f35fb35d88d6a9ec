// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/bert/reference_run.h"

#include "framework/testing/expect_reference_run.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  ExpectReferenceRun(BertReferenceRun(), "models/bert/testdata/reference_run.json", /*learned=*/0.3,
                     "bench/peers/bert_torch.py");
}

TEST(ReferenceRunTest, HeldOutFiguresArePyTorchsWhateverTheBatch) {
  ExpectReferenceEvaluations(BertReferenceRun(), "models/bert/testdata/reference_run.json",
                             {{"data=1", 1, 1},
                              {"data=1", 3, 12},
                              {"data=2", 2, 20},
                              {"data=3", 1, 7},
                              {"model=2", 1, 64},
                              {"data=2 pipe=2", 2, 8}});
}

}  // namespace
}  // namespace sluice
