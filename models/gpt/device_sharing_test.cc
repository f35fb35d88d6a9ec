// More devices than cores cost little: eight devices on two workers take nearly the time of two for
// the same batch. Updates are left out, as every device of axis "data" updates all parameters.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/data/batch.h"
#include "framework/data/text_corpus.h"
#include "framework/data/text_dataset.h"
#include "framework/passes/backward.h"
#include "framework/passes/clip.h"
#include "framework/session/session.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/gpt/parity_layouts.h"

namespace sluice {
namespace {

constexpr double kMostSlowdown = 1.3;
constexpr int kRounds = 12, kStepsARound = 3;

GptConfig Config() {
  GptConfig config = ReferenceLayout(32).Config();
  config.dropout = 0;
  return config;
}

// Loss, gradients, their reduction and their norm.
absl::StatusOr<std::unique_ptr<Session>> StartWithoutUpdates(const std::string& mesh) {
  Graph graph;
  RETURN_IF_ERROR(BuildGptLoss(Config(), &graph));
  VariableGradients gradients;
  RETURN_IF_ERROR(AddBackward(&graph, Tensor(&graph, graph.outputs()[0].second), &gradients));
  graph.Output("grad_norm", AddGlobalNorm(&graph, gradients, 0).norm);
  RETURN_IF_ERROR(graph.Finish());
  SessionOptions options;
  options.mesh = mesh;
  options.workers = 2;
  const std::vector<ProgramGraph> programs = {{"train", &graph}};
  return Session::Start(programs, options);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

TEST(DeviceSharingTest, EightDevicesOnTwoWorkersTakeLittleMoreThanTwo) {
  const absl::StatusOr<std::string> text = ReadFile("models/gpt/testdata/fixed.txt");
  ASSERT_TRUE(text.ok()) << text.status();
  const GptConfig config = Config();
  const auto data = TextDataset::Create("fixed.txt", *text, config.sequence_length);
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch(*data, config.batch);
  ASSERT_TRUE(ReadBatch(*data, {SampleOrder::kRandom, 1}, 0, &batch).ok());

  std::unique_ptr<Session> sessions[2];
  const char* meshes[2] = {"data=2", "data=8"};
  for (int i = 0; i < 2; ++i) {
    auto session = StartWithoutUpdates(meshes[i]);
    ASSERT_TRUE(session.ok()) << session.status();
    sessions[i] = *std::move(session);
  }
  std::vector<double> seconds[2], ratios;
  Fetches fetches;
  for (int round = 0; round <= kRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      for (int step = 0; step < kStepsARound; ++step) {
        ASSERT_TRUE(
            sessions[i]
                ->Step("train", {{"tokens", &batch.tensors[0]}, {"labels", &batch.tensors[1]}})
                .ok());
        const absl::Status taken = sessions[i]->Next(&fetches);
        ASSERT_TRUE(taken.ok()) << taken;
      }
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      if (round > 0) seconds[i].push_back(elapsed.count() / kStepsARound);  // the first warms up
    }
    if (round > 0) ratios.push_back(seconds[1].back() / seconds[0].back());
  }
  std::printf(
      "2 devices %.2f ms, 8 devices %.2f ms a step (medians); ratio %.3f (median of pairs)\n",
      1e3 * Median(seconds[0]), 1e3 * Median(seconds[1]), Median(ratios));
  EXPECT_LE(Median(ratios), kMostSlowdown);
}

}  // namespace
}  // namespace sluice
