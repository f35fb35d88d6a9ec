// Every layout trains the tiny GPT as one device does. Targets of this file take one setting each.
#include "models/gpt/parity.h"

#include <cstdio>
#include <string>
#include <vector>

#include "framework/checkpoint/checkpoint.h"
#include "framework/train/variables.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Run once a process for each batch.
const Reference& ReferenceFor(const TrainingSetting& setting, int64_t batch) {
  static auto* references = new std::map<std::pair<std::string, int64_t>, Reference>();
  const auto found = references->find({setting.name, batch});
  if (found != references->end()) return found->second;
  absl::StatusOr<Reference> reference = RunReference(GptParity(ReferenceLayout(batch)), setting);
  EXPECT_TRUE(reference.ok()) << reference.status();
  if (!reference.ok()) return (*references)[{setting.name, batch}];
  const StepRecord &first = reference->records.front(), &last = reference->records.back();
  std::printf("%s, batch %d: loss %.4f -> %.4f, gradient norm %.3f -> %.3f\n", setting.name.c_str(),
              static_cast<int>(batch), first.loss, last.loss, first.grad_norm, last.grad_norm);
  return (*references)[{setting.name, batch}] = *std::move(reference);
}

void ExpectParity(const TrainingSetting& setting, const GptLayout& layout) {
  const Reference& reference = ReferenceFor(setting, layout.batch);
  ASSERT_FALSE(reference.records.empty());
  ParityFigures figures;
  const absl::Status status = CheckCase(reference, GptParity(layout), &figures);
  EXPECT_TRUE(status.ok()) << status;
  std::printf("%s: %s\n", layout.Name().c_str(), figures.ToString().c_str());
}

class ParityTest : public ::testing::TestWithParam<GptLayout> {};

TEST_P(ParityTest, AdamWWithClip) { ExpectParity(AdamWWithClip(), GetParam()); }
TEST_P(ParityTest, AdamWWithoutClip) { ExpectParity(AdamWWithoutClip(), GetParam()); }
TEST_P(ParityTest, PlainSgd) { ExpectParity(PlainSgd(), GetParam()); }

// What the thread sanitizer can see is in the runtime that all layouts share, and twenty layouts
// take it minutes: every third will do, with one of each kind among them.
std::vector<GptLayout> Layouts() {
  std::vector<GptLayout> layouts = ParityLayouts();
#ifdef THREAD_SANITIZER
  std::vector<GptLayout> some;
  for (size_t i = 1; i < layouts.size(); i += 3) some.push_back(layouts[i]);
  layouts = some;
#endif
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(Layouts()),
                         [](const auto& info) { return info.param.Stem(); });

// The regime is what the bounds were measured in: calm, and it learns.
TEST(ParityReferenceTest, TheReferenceLearns) {
  const Reference& reference = ReferenceFor(AdamWWithClip(), 8);
  ASSERT_EQ(reference.records.size(), static_cast<size_t>(kParitySteps + 1));
  EXPECT_GT(reference.records.front().loss, 5);
  EXPECT_LT(reference.records.back().loss, 3.6);
  EXPECT_GT(reference.records.back().loss, 1);
}

TEST(ParityResumeTest, ACheckpointOfAnotherMeshGoesOnAsOneDevice) {
  constexpr int64_t kBefore = 20;
  const TrainingSetting setting = AdamWWithClip();
  const Reference& reference = ReferenceFor(setting, 8);
  ASSERT_FALSE(reference.records.empty());
  const std::string folder = ::testing::TempDir() + "/parity_checkpoint";
  std::string path;
  {
    const auto first = ParityRun::Start(GptParity({"data=2 model=2"}), setting);
    ASSERT_TRUE(first.ok()) << first.status();
    ParityFigures figures;
    const absl::Status status = CheckFreeRun(reference, 0, kBefore - 1, first->get(), &figures);
    ASSERT_TRUE(status.ok()) << status;
    CheckpointMeta meta;
    meta.step = kBefore;
    std::vector<TensorEntry> entries;
    Session* session = (*first)->session();
    for (const VariableInfo& variable : session->variables()) {
      entries.push_back({variable.name, variable.dtype, variable.shape});
    }
    const auto saved = SaveCheckpoint(
        folder, meta, entries, [&](const TensorEntry& entry) { return session->Read(entry.name); });
    ASSERT_TRUE(saved.ok()) << saved.status();
    path = *saved;
  }
  const auto checkpoint = Checkpoint::Load(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const GptLayout& layout : {GptLayout{"pipe=2", 4}, GptLayout{"data=3"}}) {
    const auto second = ParityRun::Start(GptParity(layout), setting);
    ASSERT_TRUE(second.ok()) << second.status();
    const absl::Status loaded = LoadVariables(*checkpoint, (*second)->session());
    ASSERT_TRUE(loaded.ok()) << loaded;
    ParityFigures figures;
    const absl::Status status =
        CheckFreeRun(reference, checkpoint->meta().step, kParitySteps, second->get(), &figures);
    EXPECT_TRUE(status.ok()) << status;
    std::printf("resumed on %s: %s\n", layout.Name().c_str(), figures.ToString().c_str());
  }
}

}  // namespace
}  // namespace sluice
