#include "framework/checkpoint/checkpoint_writer.h"

#include <condition_variable>
#include <mutex>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Holds the first call that changes the disk until it is told to go on.
class Gate : public FileFaults {
 public:
  int Before(FileOperation*) override {
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
    return error_;
  }
  void Open(int error = 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    error_ = error;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  int error_ = 0;
};

class CheckpointWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(RemoveTree(dir_).ok());
  }
  static void Begin(CheckpointWriter* writer, int64_t step, float value) {
    HostTensor tensor(DType::kF32, {});
    *tensor.data<float>() = value;
    writer->Begin({{step, 1, step, {}}, {{"w", DType::kF32, {}}}, {{"w", {}}}},
                  [tensor]() -> BoxSource { return [tensor](const BoxEntry&) { return tensor; }; });
  }
  float Value(const std::string& path) { return *Checkpoint::Load(path)->Read("w")->data<float>(); }
  std::string dir_;
};

TEST_F(CheckpointWriterTest, TheCallerGoesOnWhileItWrites) {
  Gate gate;
  CheckpointWriter writer({.dir = dir_, .faults = &gate});
  EXPECT_FALSE(writer.Take(/*wait=*/true));
  Begin(&writer, 3, 1.5f);
  EXPECT_FALSE(writer.Take(/*wait=*/false));
  EXPECT_TRUE(ListDirectory(dir_)->empty());
  gate.Open();
  const auto result = writer.Take(/*wait=*/true);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->step, 3);
  EXPECT_EQ(result->pruned, absl::OkStatus());
  ASSERT_EQ(result->saved.status(), absl::OkStatus());
  EXPECT_EQ(Value(*result->saved), 1.5f);
  EXPECT_FALSE(writer.Take(/*wait=*/true)) << "twice";
  Begin(&writer, 4, 2.5f);
  EXPECT_EQ(Value(*writer.Take(/*wait=*/true)->saved), 2.5f);
  EXPECT_THAT(*ListDirectory(dir_), ::testing::ElementsAre("step-000004"));
}

TEST_F(CheckpointWriterTest, AnErrorIsTheResult) {
  Gate gate;
  CheckpointWriter writer({.dir = dir_, .faults = &gate});
  Begin(&writer, 3, 1.5f);
  gate.Open(ENOSPC);
  EXPECT_EQ(writer.Take(/*wait=*/true)->saved.status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(CheckpointWriterTest, ItsEndWaits) {
  Gate gate;
  {
    CheckpointWriter writer({.dir = dir_, .faults = &gate});
    Begin(&writer, 3, 1.5f);
    gate.Open();
  }
  EXPECT_EQ(Value(dir_ + "/step-000003"), 1.5f);
}

}  // namespace
}  // namespace sluice
