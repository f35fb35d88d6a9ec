// Another framework, PyTorch, trained the same model from the same values on the same batches: its
// losses and gradient norms are ours.
#include "models/gpt/reference_run.h"

#include <string>

#include "framework/checkpoint/checkpoint.h"
#include "framework/testing/expect_reference_run.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr char kText[] = "models/gpt/testdata/fixed.txt";

TEST(ReferenceRunTest, PyTorchGetsTheSameLossesAndNorms) {
  ExpectReferenceRun(GptReferenceRun(kText), "models/gpt/testdata/reference_run.json",
                     /*learned=*/1, "bench/peers/gpt_torch.py");
}

// Batches that divide the 47 windows and that do not, fewer windows than the batch, devices that
// have uneven shares of it.
TEST(ReferenceRunTest, HeldOutFiguresArePyTorchsWhateverTheBatch) {
  ExpectReferenceEvaluations(GptReferenceRun(kText), "models/gpt/testdata/reference_run.json",
                             {{"data=1", 1, 1},
                              {"data=1", 1, 47},
                              {"data=1", 4, 16},
                              {"data=2", 3, 12},
                              {"data=3", 1, 10},
                              {"model=2", 1, 64},
                              {"data=2 model=2 pipe=2", 2, 8}});
}

TEST(ReferenceRunTest, WritesWhatThePeerReads) {
  auto run = ReferenceRun::Start(GptReferenceRun(kText));
  ASSERT_TRUE(run.ok()) << run.status();
  const std::string folder = ::testing::TempDir() + "/reference_run";
  const absl::Status written = (*run)->WriteInputs(folder);
  ASSERT_TRUE(written.ok()) << written;
  const auto checkpoint = Checkpoint::Load(folder + "/step-000000");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->meta().options.at("hidden"), "128");
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

}  // namespace
}  // namespace sluice
