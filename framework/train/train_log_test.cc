#include "framework/train/train_log.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/checkpoint/file.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const std::vector<Metric> kLoss = {{"loss", "nats a byte"}};

std::string Path(const char* name) { return ::testing::TempDir() + "/" + name + ".jsonl"; }
std::string Read(const std::string& path) { return *ReadText(path, 1 << 20); }

TEST(TrainLogTest, WritesOneObjectALineWithNineDigits) {
  const std::string path = Path("digits");
  remove(path.c_str());
  {
    absl::StatusOr<TrainLog> log = TrainLog::Open(path, 0);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_TRUE(log->Evaluation(0, kLoss, {{5.5}, 300, 300}, false, {{"corpus", "0123\"x"}}).ok());
    EXPECT_TRUE(log->Step(1, static_cast<double>(1.0f / 3), 0.5, 1e-3, "tokens", 12345.6789).ok());
    EXPECT_TRUE(log->Step(2, std::nan(""), INFINITY, 1e-3, "samples", 1).ok());
    EXPECT_TRUE(
        log->Evaluation(2, {{"loss", ""}, {"accuracy", ""}}, {{2.5, 0.75}, 128, 300}, false, {})
            .ok());
  }
  EXPECT_EQ(Read(path),
            "{\"step\":0,\"val_loss\":5.5,\"val_samples\":300,\"corpus\":\"0123\\\"x\"}\n"
            "{\"step\":1,\"loss\":0.333333343,\"grad_norm\":0.5,\"lr\":0.001,"
            "\"tokens_per_second\":12345.6789}\n"
            "{\"step\":2,\"loss\":null,\"grad_norm\":null,\"lr\":0.001,\"samples_per_second\":1}\n"
            "{\"step\":2,\"val_subset_loss\":2.5,\"val_subset_accuracy\":0.75,"
            "\"val_subset_samples\":128}\n");
  EXPECT_EQ(std::stof("0.333333343"), 1.0f / 3);
}

TEST(TrainLogTest, ResumedRunsDropWhatCameAfterTheirCheckpoint) {
  const std::string path = Path("resume");
  remove(path.c_str());
  {
    TrainLog log = *TrainLog::Open(path, 0);
    for (int step = 1; step <= 3; ++step) EXPECT_TRUE(log.Step(step, step, 1, 1, "tokens", 1).ok());
    EXPECT_TRUE(log.Evaluation(2, kLoss, {{2.5}, 1, 2}, false, {}).ok());
    EXPECT_TRUE(log.Evaluation(1, kLoss, {{1.5}, 1, 2}, true, {}).ok());
  }
  FILE* file = fopen(path.c_str(), "a");
  fputs("{\"step\":2,\"lo", file);  // a crash
  fclose(file);
  { EXPECT_TRUE(TrainLog::Open(path, 2)->Step(3, 30, 1, 1, "tokens", 1).ok()); }
  EXPECT_EQ(Read(path),
            "{\"step\":1,\"loss\":1,\"grad_norm\":1,\"lr\":1,\"tokens_per_second\":1}\n"
            "{\"step\":2,\"loss\":2,\"grad_norm\":1,\"lr\":1,\"tokens_per_second\":1}\n"
            "{\"step\":1,\"val_final_loss\":1.5,\"val_final_samples\":1}\n"
            "{\"step\":3,\"loss\":30,\"grad_norm\":1,\"lr\":1,\"tokens_per_second\":1}\n");
}

// More than one billion bytes, nearly all of them a hole that a crash left in one line.
TEST(TrainLogTest, ALogOfAnyLengthIsGoneOnWith) {
  const std::string path = Path("long");
  remove(path.c_str());
  ASSERT_TRUE(TrainLog::Open(path, 0)->Step(1, 1, 1, 1, "tokens", 1).ok());
  const std::string first = Read(path);
  std::filesystem::resize_file(path, (int64_t{1} << 30) + 5);
  {
    FileWriter file = *FileWriter::Extend(path);
    ASSERT_TRUE(file.Append("\n" + first).ok());
    ASSERT_TRUE(file.Close().ok());
  }
  const auto log = TrainLog::Open(path, 1);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(Read(path), first + first);
}

TEST(TrainLogTest, ALinkBesideItIsNotFollowed) {
  const std::string path = Path("beside"), precious = Path("precious");
  for (const std::string& old : {path, path + ".tmp"}) remove(old.c_str());
  { EXPECT_TRUE(TrainLog::Open(path, 0)->Step(1, 1, 1, 1, "tokens", 1).ok()); }
  std::filesystem::copy_file(path, precious, std::filesystem::copy_options::overwrite_existing);
  const std::string line = Read(precious);
  std::filesystem::create_symlink(precious, path + ".tmp");
  EXPECT_TRUE(TrainLog::Open(path, 0).ok());
  EXPECT_EQ(Read(path), "");
  EXPECT_EQ(Read(precious), line);
}

TEST(TrainLogTest, UnwritablePathIsAnError) {
  EXPECT_FALSE(TrainLog::Open("/nowhere/log.jsonl", 0).ok());
}

}  // namespace
}  // namespace sluice
