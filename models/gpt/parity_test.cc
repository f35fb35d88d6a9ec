// Every layout trains the tiny GPT as one device does. Targets of this file take one setting each.
#include "models/gpt/parity.h"

#include <cstdio>
#include <string>
#include <vector>

#include "framework/checkpoint/checkpoint.h"
#include "framework/testing/expect_parity.h"
#include "framework/testing/layouts.h"
#include "framework/train/variables.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const Reference& ReferenceFor(const TrainingSetting& setting, int64_t batch) {
  return SharedReference(setting, GptParity(ReferenceLayout(batch)));
}

void ExpectParity(const TrainingSetting& setting, const GptLayout& layout) {
  ExpectParity(setting, GptParity(layout), GptParity(ReferenceOf(layout)));
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

INSTANTIATE_TEST_SUITE_P(Layouts, ParityTest, ::testing::ValuesIn(Layouts()), LayoutName());

// Every fourth, for settings that say little of layouts beyond what AdamWWithClip says of all.
std::vector<GptLayout> FewLayouts() {
  const std::vector<GptLayout> all = ParityLayouts();
  std::vector<GptLayout> few;
  for (size_t i = 1; i < all.size(); i += 4) few.push_back(all[i]);
  return few;
}

INSTANTIATE_TEST_SUITE_P(Few, ParityTest, ::testing::ValuesIn(FewLayouts()), LayoutName());

// Samples, heads, micro-batches and both together: a weight is dropped wherever it lies.
INSTANTIATE_TEST_SUITE_P(
    AttentionDropout, ParityTest,
    ::testing::ValuesIn(WithAttentionDropout(
        {{"data=3"}, {"data=2 model=2 pipe=2", 2}, {"data=2 model=2", 2, 8, 0, false, 1, true}})),
    LayoutName());

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
