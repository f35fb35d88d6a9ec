// Checkpoints that ranks write together, loaded on other meshes and by other numbers of ranks.
#include "framework/train/variables.h"

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/checkpoint/folder.h"
#include "framework/comm/in_process_net.h"
#include "framework/testing/models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 3;

MlpOptions Model() {
  MlpOptions model;
  model.batch = 12;
  model.annotation = MegatronAnnotations(3);
  return model;
}

CheckpointMeta Meta() { return {kSteps, 1, kSteps * 12, {{"model", "mlp"}}}; }

using OneRank = std::function<absl::Status(int32_t rank, Session* session)>;

// Runs a function on every rank of a new session; their statuses.
std::vector<absl::Status> OnRanks(const std::string& mesh, int32_t ranks, const OneRank& run) {
  InProcessNet net(ranks, {});
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Graph graph;
      ASSERT_EQ(BuildMlp(&graph, Model()), absl::OkStatus());
      SessionOptions options;
      options.mesh = mesh;
      options.workers = 1;
      options.threads_per_device = 1;
      if (ranks > 1) options.net = net.endpoint(rank);
      auto session = Session::Start({{"train", &graph}}, options);
      statuses[rank] = session.ok() ? run(rank, session->get()) : session.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::Status Train(Session* session) {
  for (int64_t step = 0; step < kSteps; ++step) {
    Feeds feeds;
    const auto batch = MlpBatch(Model(), step, 0.05);
    for (const auto& [name, value] : batch) feeds.emplace_back(name, &value);
    RETURN_IF_ERROR(session->Step("train", feeds));
    RETURN_IF_ERROR(session->Next().status());
  }
  return absl::OkStatus();
}

// The bits of every variable, put together out of what each rank holds.
class Whole {
 public:
  // Where a rank holds what another has given, both must be the same.
  absl::Status Add(Session* session) {
    for (const VariableInfo& variable : session->variables()) {
      const Box whole = WholeBox(variable.shape);
      const int64_t size = SizeOf(variable.dtype);
      ASSIGN_OR_RETURN(const std::vector<VariableBox> boxes, session->boxes(variable.name));
      for (const VariableBox& each : boxes) {
        ASSIGN_OR_RETURN(const HostTensor value, session->ReadBox(variable.name, each.box));
        const std::lock_guard lock(mutex_);
        std::string& bytes = bytes_[variable.name];
        bytes.resize(variable.shape.NumElements() * size);
        std::vector<bool>& known = known_[variable.name];
        known.resize(bytes.size());
        int64_t from = 0;
        ForEachRow(whole, each.box, [&](int64_t offset, int64_t length) {
          for (int64_t i = 0; i < length * size; ++i, ++from) {
            const char byte = static_cast<char>(value.bytes[from]);
            EXPECT_TRUE(!known[offset * size + i] || bytes[offset * size + i] == byte);
            bytes[offset * size + i] = byte;
            known[offset * size + i] = true;
          }
        });
        if (each.saved) saved_[variable.name] += Volume(each.box) * size;
      }
    }
    return absl::OkStatus();
  }
  const std::map<std::string, std::string>& bytes() const { return bytes_; }
  // Bytes of all boxes that ranks would save, by variable.
  const std::map<std::string, int64_t>& saved() const { return saved_; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> bytes_;
  std::map<std::string, std::vector<bool>> known_;
  std::map<std::string, int64_t> saved_;
};

// Trains, saves by all ranks, and says what they had. `change` may do harm before the commit.
absl::StatusOr<std::string> TrainAndSave(const std::string& mesh, int32_t ranks,
                                         const std::string& dir, Whole* whole,
                                         const std::function<void()>& change = nullptr) {
  std::barrier together(ranks);
  absl::StatusOr<std::string> path = absl::UnknownError("not committed");
  const auto statuses = OnRanks(mesh, ranks, [&](int32_t rank, Session* session) {
    absl::Status status = Train(session);
    if (status.ok()) status = whole->Add(session);
    if (rank == 0) status.Update(BeginCheckpoint(dir, Meta()));
    together.arrive_and_wait();
    const auto contents = ContentsToSave(*session, ranks);
    status.Update(contents.status());
    if (contents.ok()) {
      status.Update(WriteCheckpointPart(dir, Meta(), {rank, ranks}, contents->tensors,
                                        contents->boxes, ValuesToSave(session, ranks)));
    }
    together.arrive_and_wait();
    if (rank == 0 && change) change();
    if (rank == 0) path = CommitCheckpoint(dir, Meta(), ranks);
    return status;
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return path;
}

class VariablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_EQ(RemoveTree(dir_), absl::OkStatus());
  }
  std::string dir_;
};

TEST_F(VariablesTest, FourRanksSaveAndAnyLoad) {
  for (const char* mesh : {"data=3 model=2", "data=2 model=2 pipe=2"}) {
    SCOPED_TRACE(mesh);
    Whole saved;
    const auto path = TrainAndSave(mesh, 4, dir_, &saved);
    ASSERT_EQ(path.status(), absl::OkStatus());
    EXPECT_THAT(
        *ListDirectory(*path),
        ElementsAre("manifest.json", "tensors-00001-of-00004.safetensors",
                    "tensors-00002-of-00004.safetensors", "tensors-00003-of-00004.safetensors",
                    "tensors-00004-of-00004.safetensors"));
    // Each element is stored once, in whose files ever.
    const Manifest manifest = *ReadManifest(*path + "/manifest.json");
    EXPECT_EQ(manifest.types.size(), saved.bytes().size());
    for (const auto& [name, bytes] : saved.bytes()) {
      const TensorEntry tensor = *ParseType(name, manifest.types.at(name));
      int64_t volume = 0;
      for (const StoredBox& stored : manifest.boxes.at(name)) volume += Volume(stored.box);
      EXPECT_EQ(volume, tensor.shape.NumElements()) << name;
      EXPECT_EQ(saved.saved().at(name), static_cast<int64_t>(bytes.size())) << name;
    }
    const auto checkpoint = Checkpoint::Load(*path);
    ASSERT_EQ(checkpoint.status(), absl::OkStatus());
    EXPECT_EQ(checkpoint->Verify(), absl::OkStatus());
    for (const auto& [ranks, other] : std::vector<std::pair<int32_t, std::string>>{
             {1, "data=2"}, {2, "model=3"}, {3, "data=2 model=2 pipe=2"}, {3, "model=2 pipe=3"}}) {
      Whole loaded;
      const auto statuses = OnRanks(other, ranks, [&](int32_t, Session* session) {
        RETURN_IF_ERROR(LoadVariables(*checkpoint, session));
        RETURN_IF_ERROR(session->CheckReplicas());
        return loaded.Add(session);
      });
      for (const absl::Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
      EXPECT_TRUE(loaded.bytes() == saved.bytes()) << other << " on " << ranks << " ranks";
    }
  }
}

// Of a model with another last layer: what has a name and shape in common is taken, where it is
// asked for, and nothing else is touched.
TEST_F(VariablesTest, AnotherModelTakesWhatFits) {
  Whole saved;
  const auto path = TrainAndSave("data=2", 1, dir_, &saved);
  ASSERT_EQ(path.status(), absl::OkStatus());
  const auto checkpoint = Checkpoint::Load(*path);
  ASSERT_EQ(checkpoint.status(), absl::OkStatus());
  MlpOptions model = Model();
  model.widths.back() -= 3;
  Graph graph;
  ASSERT_EQ(BuildMlp(&graph, model), absl::OkStatus());
  SessionOptions options;
  options.mesh = "model=2";
  auto session = Session::Start({{"train", &graph}}, options);
  ASSERT_EQ(session.status(), absl::OkStatus());
  std::vector<std::string> parameters;
  for (const VariableInfo& variable : (*session)->variables()) {
    if (variable.name.find('.') == std::string::npos) parameters.push_back(variable.name);
  }
  ASSERT_EQ(parameters.size(), 6u);
  Whole before, after;
  ASSERT_EQ(before.Add(session->get()), absl::OkStatus());
  const auto left = LoadWhatFits(*checkpoint, parameters, session->get());
  ASSERT_EQ(left.status(), absl::OkStatus());
  EXPECT_EQ(left->size(), 2u);
  ASSERT_EQ(after.Add(session->get()), absl::OkStatus());
  int taken = 0;
  for (const auto& [name, bytes] : after.bytes()) {
    const bool fits = std::count(parameters.begin(), parameters.end(), name) > 0 &&
                      std::count(left->begin(), left->end(), name) == 0;
    EXPECT_TRUE(bytes == (fits ? saved.bytes() : before.bytes()).at(name)) << name;
    taken += fits && bytes != before.bytes().at(name) ? 1 : 0;
  }
  EXPECT_EQ(taken, 4);
}

// By the writer of each rank, while its thread waits.
absl::Status SaveTogether(const std::string& dir, const CheckpointPart& part, Session* session,
                          FileFaults* faults = nullptr) {
  ASSIGN_OR_RETURN(CheckpointContents contents, ContentsToSave(*session, part.parts));
  contents.meta = Meta();
  const CheckpointWriter writer(
      {.dir = dir,
       .part = part,
       .agree = [session](const auto& mine,
                          const auto& judge) { return session->AgreeOnSave(mine, judge); },
       .faults = faults});
  return writer.Write(contents, ValuesToSave(session, part.parts)).saved.status();
}

// Refuses to make a file.
class NoFile final : public FileFaults {
 public:
  int Before(FileOperation*) override { return ENOSPC; }
};

TEST_F(VariablesTest, RanksSaveTogetherOrNotAtAll) {
  auto statuses = OnRanks("data=2 model=2", 3, [&](int32_t rank, Session* session) {
    return SaveTogether(dir_, {rank, 3}, session);
  });
  for (const absl::Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
  const auto latest = LatestCheckpoint(dir_);
  ASSERT_EQ(latest.status(), absl::OkStatus());
  EXPECT_EQ(Checkpoint::Load(*latest)->Verify(), absl::OkStatus());

  const std::string other = dir_ + "/other";
  statuses = OnRanks("data=2 model=2", 3, [&](int32_t rank, Session* session) {
    NoFile full;
    return SaveTogether(other, {rank, 3}, session, rank == 1 ? &full : nullptr);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 1: "), HasSubstr("No space")));
    EXPECT_EQ(status, statuses[0]);
  }
  EXPECT_FALSE(LatestCheckpoint(other).ok());
}

// What one rank wrote in one file is read by box as well.
TEST_F(VariablesTest, RanksLoadWhatOneRankSaved) {
  Whole saved, loaded;
  absl::StatusOr<std::string> path = absl::UnknownError("not saved");
  OnRanks("model=2", 1, [&](int32_t, Session* session) {
    std::vector<TensorEntry> entries;
    for (const VariableInfo& info : session->variables()) {
      entries.push_back({info.name, info.dtype, info.shape});
    }
    path = SaveCheckpoint(dir_, Meta(), entries,
                          [&](const TensorEntry& entry) { return session->Read(entry.name); });
    return saved.Add(session);
  });
  ASSERT_EQ(path.status(), absl::OkStatus());
  const auto checkpoint = Checkpoint::Load(*path);
  const auto statuses = OnRanks("data=2 model=2", 3, [&](int32_t, Session* session) {
    RETURN_IF_ERROR(LoadVariables(*checkpoint, session));
    return loaded.Add(session);
  });
  for (const absl::Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
  EXPECT_TRUE(loaded.bytes() == saved.bytes());
}

TEST_F(VariablesTest, APartThatIsMissingAtTheCommit) {
  Whole whole;
  const auto path = TrainAndSave("data=3 model=2", 4, dir_, &whole, [&] {
    EXPECT_EQ(RemoveTree(dir_ + "/step-000003.tmp/manifest-00003-of-00004.json"), absl::OkStatus());
  });
  EXPECT_THAT(std::string(path.status().message()), HasSubstr("part 3 of 4 is missing"));
  EXPECT_THAT(*ListDirectory(dir_), ElementsAre());
}

// A rank that saves replicas, too, or does not save what is its own.
TEST_F(VariablesTest, ABoxOfARankTwiceOrNotAtAll) {
  for (const bool twice : {true, false}) {
    Whole whole;
    const auto path = TrainAndSave("data=3 model=2", 4, dir_, &whole, [&] {
      const std::string name = "layer0/weight";
      const std::string folder = dir_ + "/step-000003.tmp/";
      Manifest first = *ReadManifest(folder + PartManifest(0, 4));
      Manifest second = *ReadManifest(folder + PartManifest(1, 4));
      std::vector<StoredBox>& boxes = first.boxes.at(name);
      ASSERT_FALSE(boxes.empty());
      if (twice) {
        second.boxes.at(name).push_back(boxes[0]);
        second.boxes.at(name).back().part = 1;
      } else {
        boxes.pop_back();
      }
      ASSERT_EQ(WriteManifest(folder + PartManifest(0, 4), first, nullptr), absl::OkStatus());
      ASSERT_EQ(WriteManifest(folder + PartManifest(1, 4), second, nullptr), absl::OkStatus());
    });
    EXPECT_THAT(std::string(path.status().message()),
                AllOf(HasSubstr("tensor layer0/weight: expected each element of f32[6,10] once"),
                      HasSubstr(twice ? " 2 times, in [0:6,0:5] of tensors-00001" : " 0 times")));
    EXPECT_THAT(*ListDirectory(dir_), ElementsAre());
  }
}

TEST_F(VariablesTest, AFlippedByteOfARankIsToldBeforeAnythingIsWritten) {
  Whole whole;
  const auto path = TrainAndSave("data=2 model=2 pipe=2", 4, dir_, &whole);
  ASSERT_EQ(path.status(), absl::OkStatus());
  // Ranks that have only replicas have nothing to save.
  EXPECT_TRUE(
      SafetensorsReader::Open(*path + "/tensors-00004-of-00004.safetensors")->entries().empty());
  const std::string file = *path + "/tensors-00002-of-00004.safetensors";
  const auto reader = SafetensorsReader::Open(file);
  ASSERT_EQ(reader.status(), absl::OkStatus());
  ASSERT_FALSE(reader->entries().empty());
  const std::string last = reader->stored().back().name;  // tensor and box
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-1, std::ios::end);
    const char byte = static_cast<char>(bytes.get());
    bytes.seekp(-1, std::ios::end).put(static_cast<char>(byte ^ 1));
  }
  const auto checkpoint = Checkpoint::Load(*path);
  ASSERT_EQ(checkpoint.status(), absl::OkStatus());
  const auto statuses = OnRanks("data=2", 1, [&](int32_t, Session* session) {
    Whole before, after;
    RETURN_IF_ERROR(before.Add(session));
    const absl::Status status = LoadVariables(*checkpoint, session);
    EXPECT_EQ(after.Add(session), absl::OkStatus());
    EXPECT_TRUE(before.bytes() == after.bytes());
    return status;
  });
  EXPECT_THAT(
      std::string(statuses[0].message()),
      AllOf(HasSubstr(file), HasSubstr("tensor " + last.substr(0, last.find(' ')) + ", box ["),
            HasSubstr("is damaged: expected digest ")));
}

}  // namespace
}  // namespace sluice
