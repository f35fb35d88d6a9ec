// Snapshots of variables while steps go on: what they have is what stood when they were begun,
// however late they are finished, and no step has another result because of them.
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/status.h"
#include "framework/comm/in_process_net.h"
#include "framework/session/session.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBefore = 2, kAfter = 3;  // steps before and after a snapshot is begun

enum class FinishedBy { kThisThread, kAnother, kNext };

MlpOptions Model(const std::string& mesh, int zero) {
  MlpOptions model;
  model.batch = 12;
  model.annotation = MegatronAnnotations(3);
  model.optimizer.zero.level = zero;
  model.optimizer.zero.mesh = *Mesh::Parse(mesh);
  return model;
}

absl::Status Steps(const MlpOptions& model, int64_t from, int64_t to, Session* session) {
  Fetches fetches;
  for (int64_t step = from; step < to; ++step) {
    const auto batch = MlpBatch(model, step, 0.1);
    Feeds feeds;
    for (const auto& [name, value] : batch) feeds.emplace_back(name, &value);
    RETURN_IF_ERROR(session->Step("train", feeds));
  }
  for (int64_t step = from; step < to; ++step) RETURN_IF_ERROR(session->Next(&fetches));
  return absl::OkStatus();
}

// Boxes of a session, by name and box, and room for copies of them.
class Copies {
 public:
  absl::Status Add(const std::string& variable, const Box& box, DType dtype) {
    HostTensor& value = values_[variable + BoxToString(box)] = HostTensor(dtype, ShapeOf(box));
    boxes_.push_back({variable, box, value.bytes.data()});
    return absl::OkStatus();
  }
  // All that this rank has: by box, and whole where it has all of a variable.
  absl::Status AddAll(Session* session) {
    for (const VariableInfo& info : session->variables()) {
      ASSIGN_OR_RETURN(const std::vector<VariableBox> held, session->boxes(info.name));
      const bool whole = session->Read(info.name).ok();
      if (whole) RETURN_IF_ERROR(Add(info.name, WholeBox(info.shape), info.dtype));
      for (const VariableBox& each : held) {
        if (!whole) RETURN_IF_ERROR(Add(info.name, each.box, info.dtype));
      }
    }
    return absl::OkStatus();
  }
  const std::vector<SnapshotBox>& boxes() const { return boxes_; }
  std::map<std::string, std::vector<std::byte>> bytes() const {
    std::map<std::string, std::vector<std::byte>> bytes;
    for (const auto& [name, value] : values_) bytes[name] = value.bytes;
    return bytes;
  }
  // The same by Read and ReadBox, as things stand.
  static std::map<std::string, std::vector<std::byte>> Expected(
      const std::vector<SnapshotBox>& boxes, Session* session) {
    std::map<std::string, std::vector<std::byte>> bytes;
    for (const SnapshotBox& each : boxes) {
      auto value = session->ReadBox(each.variable, each.box);
      if (!value.ok()) value = session->Read(each.variable);
      EXPECT_EQ(value.status(), absl::OkStatus());
      bytes[each.variable + BoxToString(each.box)] = value->bytes;
    }
    return bytes;
  }

 private:
  std::map<std::string, HostTensor> values_;
  std::vector<SnapshotBox> boxes_;
};

// Steps with a snapshot on the way; what the variables are at the end.
absl::StatusOr<std::map<std::string, std::vector<std::byte>>> StepWithSnapshot(
    const MlpOptions& model, FinishedBy by, Session* session) {
  Copies first, second;
  RETURN_IF_ERROR(first.AddAll(session));
  RETURN_IF_ERROR(second.AddAll(session));
  RETURN_IF_ERROR(Steps(model, 0, kBefore, session));
  const auto expected = Copies::Expected(first.boxes(), session);
  RETURN_IF_ERROR(session->PrepareSnapshots(first.boxes()));
  RETURN_IF_ERROR(session->BeginSnapshot());
  std::thread another;
  if (by == FinishedBy::kAnother) another = std::thread([session] { session->FinishSnapshot(); });
  const absl::Status status = Steps(model, kBefore, kBefore + kAfter, session);
  if (another.joinable()) another.join();
  RETURN_IF_ERROR(status);
  const auto after = Copies::Expected(first.boxes(), session);
  if (by == FinishedBy::kNext) {
    RETURN_IF_ERROR(session->PrepareSnapshots(second.boxes()));
    RETURN_IF_ERROR(session->BeginSnapshot());
  }
  session->FinishSnapshot();
  EXPECT_TRUE(first.bytes() == expected) << "not as it stood";
  EXPECT_FALSE(after == expected) << "the steps change nothing";
  EXPECT_TRUE(by != FinishedBy::kNext || second.bytes() == after);
  return after;
}

struct Layout {
  const char* mesh;
  int64_t micro = 1;
  int zero = 0;  // level
  int32_t ranks = 1;
};

constexpr Layout kLayouts[] = {{"data=1"},
                               {"data=2"},
                               {"data=2 model=2", 2},
                               {"data=2 model=2 pipe=2", 3},
                               {"data=2", 1, 2},
                               {"data=2 @async"},
                               {"data=2", 1, 0, 2},
                               {"data=2 model=2 pipe=2", 2, 0, 4},
                               {"data=2", 1, 2, 2}};

// By rank: what its variables are at the end.
std::vector<std::map<std::string, std::vector<std::byte>>> TrainOn(const Layout& layout,
                                                                   bool snapshot, FinishedBy by) {
  InProcessNet net(layout.ranks, {});
  std::vector<std::map<std::string, std::vector<std::byte>>> ends(layout.ranks);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < layout.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const MlpOptions model = Model(layout.mesh, layout.zero);
      Graph graph;
      ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
      SessionOptions options;
      options.mesh = layout.mesh;
      options.micro_batches = layout.micro;
      options.threads_per_device = 1;
      if (layout.ranks > 1) options.net = net.endpoint(rank);
      const auto session = Session::Start({{"train", &graph}}, options);
      ASSERT_EQ(session.status(), absl::OkStatus());
      if (snapshot) {
        const auto end = StepWithSnapshot(model, by, session->get());
        ASSERT_EQ(end.status(), absl::OkStatus());
        ends[rank] = *end;
      } else {
        Copies all;
        ASSERT_EQ(all.AddAll(session->get()), absl::OkStatus());
        ASSERT_EQ(Steps(model, 0, kBefore + kAfter, session->get()), absl::OkStatus());
        ends[rank] = Copies::Expected(all.boxes(), session->get());
      }
      ASSERT_EQ((*session)->Close(), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(SnapshotTest, HasWhatStoodWhenItWasBegun) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.mesh);
    const auto undisturbed = TrainOn(layout, /*snapshot=*/false, FinishedBy::kThisThread);
    EXPECT_FALSE(undisturbed[0].empty());
    for (const FinishedBy by : {FinishedBy::kThisThread, FinishedBy::kAnother, FinishedBy::kNext}) {
      EXPECT_TRUE(TrainOn(layout, /*snapshot=*/true, by) == undisturbed);
    }
  }
}

TEST(SnapshotTest, WhatIsWrittenAfterwardsIsNotInIt) {
  const MlpOptions model = Model("data=2 model=2", 0);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  SessionOptions options;
  options.mesh = "data=2 model=2";
  const auto session = Session::Start({{"train", &graph}}, options);
  ASSERT_EQ(session.status(), absl::OkStatus());
  Copies all;
  ASSERT_EQ(all.AddAll(session->get()), absl::OkStatus());
  const auto expected = Copies::Expected(all.boxes(), session->get());
  ASSERT_EQ((*session)->PrepareSnapshots(all.boxes()), absl::OkStatus());
  ASSERT_EQ((*session)->BeginSnapshot(), absl::OkStatus());
  for (const VariableInfo& info : (*session)->variables()) {
    ASSERT_EQ((*session)->Write(info.name, HostTensor(info.dtype, info.shape)), absl::OkStatus());
  }
  (*session)->FinishSnapshot();
  EXPECT_TRUE(all.bytes() == expected);
}

TEST(SnapshotTest, ErrorsNameTheVariable) {
  const MlpOptions model = Model("data=2 model=2", 0);
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  const auto session = Session::Start({{"train", &graph}}, {});
  ASSERT_EQ(session.status(), absl::OkStatus());
  std::byte room[4096];
  EXPECT_THAT(std::string((*session)->PrepareSnapshots({{"chair", {}, room}}).message()),
              HasSubstr("no variable \"chair\""));
  const std::string name = (*session)->variables()[0].name;
  EXPECT_THAT(std::string((*session)->PrepareSnapshots({{name, {{0, 1}, {0, 1}}, room}}).message()),
              HasSubstr("variable " + name + ": rank 0 does not hold [0:1,0:1]"));
}

}  // namespace
}  // namespace sluice
