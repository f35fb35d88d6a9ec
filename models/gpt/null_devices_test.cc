// A large plan through the whole runtime without arithmetic: what null devices count is what the
// plan says of itself.
#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "framework/compiler/compile.h"
#include "framework/plan/statistics.h"
#include "framework/runtime/runtime.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

std::atomic<int64_t> messages{0};

int64_t Threads() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

TEST(NullDevicesTest, AStepOf24LayersOn256DevicesIsWhatThePlanSays) {
  GptConfig config;
  config.layers = 24;
  config.hidden = 64;
  config.heads = 4;
  config.sequence_length = 32;
  config.batch = 128;
  CompileOptions options;
  options.mesh = *Mesh::Parse("data=16 model=4 pipe=4 @null");
  options.micro_batches = 4;
  Graph graph;
  OptimizerOptions optimizer;
  optimizer.clip = 1;
  ASSERT_TRUE(BuildGptTrain(config, optimizer, &graph).ok());
  absl::StatusOr<plan::Plan> plan = CompilePlan({{"train", &graph}}, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::StatusOr<ProgramIndex> index = ProgramIndex::Build(plan->programs(0));
  ASSERT_TRUE(index.ok()) << index.status();
  const ProgramStatistics count = CountProgram(*index);
  ASSERT_EQ(plan->devices_size(), 256);

  const int64_t threads = Threads();
  RuntimeOptions run;
  run.tamper = [](Message*) { messages.fetch_add(1, std::memory_order_relaxed); };
  const absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Start(*plan, run);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  // One that computes and one for I/O a core.
  EXPECT_LE(Threads() - threads, 2 * std::thread::hardware_concurrency());
  std::vector<HostTensor> feeds;
  for (const plan::Port& port : plan->programs(0).feeds()) {
    feeds.emplace_back(static_cast<DType>(port.dtype()), Shape(absl::MakeConstSpan(port.shape())));
  }
  std::vector<Feed> fed;
  for (const HostTensor& feed : feeds) fed.emplace_back(&feed);
  constexpr int64_t kSteps = 3;
  for (int64_t step = 0; step < kSteps; ++step) {
    ASSERT_EQ((*runtime)->Enqueue(0, fed, step), absl::OkStatus());
    ASSERT_EQ((*runtime)->Next().status(), absl::OkStatus());
  }
  (*runtime)->Quiesce();
  const NullCounts counts = (*runtime)->null_counts();
  EXPECT_EQ(counts.instructions, kSteps * count.instances);
  EXPECT_EQ(counts.flops, kSteps * count.flops);
  EXPECT_EQ(counts.wire_bytes, kSteps * count.wire_bytes);
  EXPECT_EQ(messages.load(), kSteps * count.messages);
  EXPECT_GT(count.instances, 100000);
  EXPECT_GT(count.wire_bytes, 0);
  EXPECT_EQ((*runtime)->VariableShard(0, 0), nullptr);
}

}  // namespace
}  // namespace sluice
