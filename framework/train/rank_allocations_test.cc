// No rank ever holds a whole variable that it has a part of: the largest piece of heap that any of
// them asks for, while it starts, steps, saves and loads, is smaller. The memory of devices is not
// of the heap; that it holds parts alone is the plan's affair.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/comm/in_process_net.h"
#include "framework/testing/allocations.h"
#include "framework/testing/models.h"
#include "framework/train/variables.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int32_t kRanks = 4;
constexpr int64_t kWidth = 1024, kInner = 4096;
constexpr int64_t kWhole = kWidth * kInner * int64_t{sizeof(float)};
constexpr const char* kMesh = "model=4";

MlpOptions Model() {
  MlpOptions model;
  model.batch = 4;
  model.widths = {kWidth, kInner, 8};
  model.annotation = MegatronAnnotations(2);
  return model;
}

absl::StatusOr<std::unique_ptr<Session>> Start(CommNet* net, const std::string& mesh) {
  Graph graph;
  RETURN_IF_ERROR(BuildMlp(&graph, Model()));
  SessionOptions options;
  options.mesh = mesh;
  options.workers = 1;
  options.threads_per_device = 1;
  options.net = net;
  return Session::Start({{"train", &graph}}, options);
}

absl::Status Step(Session* session) {
  Feeds feeds;
  const auto batch = MlpBatch(Model(), 0, 0.01);
  for (const auto& [name, value] : batch) feeds.emplace_back(name, &value);
  RETURN_IF_ERROR(session->Step("train", feeds));
  return session->Next().status();
}

// The largest allocation of each phase, of all ranks.
class Phases {
 public:
  // Every rank calls it when it has ended a phase.
  void End(const char* name) {
    together_.arrive_and_wait();
    if (first_.exchange(false)) {
      largest_.push_back({name, CountedAllocations().largest_own});
      StartCountingAllocations();
    }
    together_.arrive_and_wait();
    first_ = true;
    together_.arrive_and_wait();
  }
  const std::vector<std::pair<std::string, int64_t>>& largest() const { return largest_; }

 private:
  std::barrier<> together_{kRanks};
  std::atomic<bool> first_{true};
  std::vector<std::pair<std::string, int64_t>> largest_;
};

TEST(RankAllocationsTest, NoneIsAsLargeAsAVariableThatIsSplit) {
  if (!kCountsAllocations) GTEST_SKIP() << "allocations are the sanitizer's";
  const std::string dir = ::testing::TempDir() + "/rank_allocations";
  const CheckpointMeta meta = {1, 1, 4, {}};
  InProcessNet net(kRanks, {});
  Phases phases;
  std::vector<absl::Status> statuses(kRanks);
  std::vector<std::thread> threads;
  StartCountingAllocations();
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      absl::Status& status = statuses[rank];
      auto session = Start(net.endpoint(rank), kMesh);
      ASSERT_EQ(session.status(), absl::OkStatus());
      phases.End("start");
      status.Update(Step(session->get()));
      phases.End("step");
      if (rank == 0) status.Update(BeginCheckpoint(dir, meta));
      phases.End("begin to save");
      const auto contents = ContentsToSave(**session, kRanks);
      ASSERT_EQ(contents.status(), absl::OkStatus());
      status.Update(WriteCheckpointPart(dir, meta, {rank, kRanks}, contents->tensors,
                                        contents->boxes, ValuesToSave(session->get(), kRanks)));
      phases.End("save");
      if (rank == 0) status.Update(CommitCheckpoint(dir, meta, kRanks).status());
      phases.End("commit");
      const auto checkpoint = Checkpoint::Load(dir + "/step-000001");
      ASSERT_EQ(checkpoint.status(), absl::OkStatus());
      status.Update(LoadVariables(*checkpoint, session->get()));
      phases.End("load");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
  ASSERT_EQ(phases.largest().size(), 6u);
  for (const auto& [name, bytes] : phases.largest()) {
    std::printf("%s: largest allocation %.2f MB, the whole %.2f MB\n", name.c_str(),
                static_cast<double>(bytes) / 1e6, static_cast<double>(kWhole) / 1e6);
    EXPECT_LT(bytes, kWhole) << name;
  }
  EXPECT_LE(phases.largest().back().second, kWhole / kRanks + 1024);

  // What was stored whole is loaded by part as well; and who reads the whole is seen.
  const auto checkpoint = Checkpoint::Load(dir + "/step-000001");
  ASSERT_EQ(checkpoint.status(), absl::OkStatus());
  const auto whole =
      SaveCheckpoint(dir, {2, 1, 8, {}}, checkpoint->tensors(),
                     [&](const TensorEntry& entry) { return checkpoint->Read(entry.name); });
  ASSERT_EQ(whole.status(), absl::OkStatus());
  const auto in_one_file = Checkpoint::Load(*whole);
  ASSERT_EQ(in_one_file.status(), absl::OkStatus());
  StartCountingAllocations();
  EXPECT_TRUE(in_one_file->ReadBox("layer0/weight", {{0, kWidth}, {0, kInner / 4}}).ok());
  EXPECT_LE(CountedAllocations().largest_own, kWhole / 4);
  EXPECT_TRUE(checkpoint->Read("layer0/weight").ok());
  EXPECT_GE(CountedAllocations().largest_own, kWhole);
}

}  // namespace
}  // namespace sluice
