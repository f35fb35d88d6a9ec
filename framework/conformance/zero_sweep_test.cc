// ZeRO on small and uneven sizes: every level, on axes of one to four devices in both orders, for
// parameters of every length from 1 to 9, trains as one device does. Lengths that the axes do not
// divide, that equal an axis, and that are shorter than it are all among them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/compile.h"
#include "framework/testing/models.h"
#include "framework/testing/parity.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int kSteps = 2;
constexpr double kTolerance = 1e-12;

// Weights [3, length] and [length, length] and [length, 2]: of the first the columns are split over
// "model" and its bias with them, of the second the rows, and the third and its bias are whole.
MlpOptions Model(int64_t length, int level, const Mesh& mesh) {
  MlpOptions options;
  options.batch = 8;
  options.widths = {3, length, length, 2};
  options.dtype = DType::kF64;
  options.annotation = MegatronAnnotations(2);
  options.optimizer.weight_decay = 0.125;
  options.optimizer.clip = 0.25;
  options.optimizer.zero = {level, "data", mesh};
  return options;
}

std::vector<HostTensorMap> Feeds(const MlpOptions& options) {
  std::vector<HostTensorMap> feeds(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    for (auto& [name, value] : MlpBatch(options, step, 0.0625))
      feeds[step][name] = std::move(value);
  }
  return feeds;
}

// The first error of a length on all meshes, with the mesh.
absl::Status CheckLength(int64_t length, int level) {
  const MlpOptions whole = Model(length, 0, *Mesh::Parse("data=1"));
  Graph reference_graph;
  absl::Status status = BuildMlp(&reference_graph, whole);
  if (!status.ok()) return status;
  const std::vector<HostTensorMap> feeds = Feeds(whole);
  const auto reference = InterpretSteps(reference_graph, feeds, /*seed=*/3);
  if (!reference.ok()) return reference.status();
  for (int data = 1; data <= 4; ++data) {
    for (int model = 1; model <= 4; ++model) {
      for (const bool data_first : {true, false}) {
        const std::string outer = absl::StrCat("data=", data),
                          inner = absl::StrCat("model=", model);
        const std::string name = data_first ? outer + " " + inner : inner + " " + outer;
        CompileOptions compile;
        compile.mesh = *Mesh::Parse(name);
        compile.machine = Machine::Cpu();
        compile.micro_batches = 2;
        Graph graph;
        status = BuildMlp(&graph, Model(length, level, compile.mesh));
        const auto plan = CompilePlan({{"train", &graph}}, compile);
        if (status.ok()) status = plan.status();
        if (status.ok()) {
          PlanExecutorOptions run;
          run.seed = 3;
          status = CompareWithReference(*plan, feeds, *reference, kTolerance, run);
        }
        if (!status.ok()) return absl::InternalError(absl::StrCat(name, ": ", status.ToString()));
      }
    }
  }
  return absl::OkStatus();
}

class ZeroSweepTest : public ::testing::TestWithParam<int> {};

TEST_P(ZeroSweepTest, TrainsAsOneDeviceDoes) {
  for (int64_t length = 1; length <= 9; ++length) {
    EXPECT_EQ(CheckLength(length, GetParam()), absl::OkStatus()) << "length " << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ZeroSweepTest, ::testing::Values(0, 1, 2, 3),
                         [](const auto& of) { return absl::StrCat("Zero", of.param); });

}  // namespace
}  // namespace sluice
