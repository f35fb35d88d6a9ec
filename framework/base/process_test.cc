#include "framework/base/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// What a child process that does this returns; 100 and more: the signal that ended it.
int InChild(const std::function<int()>& run) {
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(ProcessTest, ClosedDescriptorsLeadNowhere) {
  EXPECT_EQ(InChild([] {
              close(STDIN_FILENO);
              close(STDOUT_FILENO);
              return RunProcess("test", [] {
                const int file = open("/dev/zero", O_RDONLY);
                printf("lost\n");
                return file > STDERR_FILENO && fflush(stdout) == 0 ? 7 : 8;
              });
            }),
            7);
}

TEST(ProcessTest, AReaderThatLeftAndAFileThatMayNotGrowAreErrorsOfTheWrite) {
  EXPECT_EQ(InChild([] {
              return RunProcess("test", [] {
                int ends[2];
                if (pipe(ends) != 0 || close(ends[0]) != 0) return 1;
                if (write(ends[1], "x", 1) != -1 || errno != EPIPE) return 2;
                const rlimit none = {0, 0};
                if (setrlimit(RLIMIT_FSIZE, &none) != 0) return 3;
                const std::string path = testing::TempDir() + "/may_not_grow";
                const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
                return write(file, "x", 1) == -1 && errno == EFBIG ? 7 : 4;
              });
            }),
            7);
}

TEST(ProcessTest, AnExceptionIsOneLine) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunProcess("train", []() -> int { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(RunProcess("train", []() -> int { throw std::runtime_error("planted"); }), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("train: out of memory: [^\n]*\ntrain: [^\n]*planted\n"));
  EXPECT_EQ(RunProcess("train", [] { return 3; }), 3);
}

TEST(ProcessTest, OutputThatCannotBeWrittenIsToldOnce) {
  EXPECT_EQ(InChild([] {
              if (freopen("/dev/full", "w", stdout) == nullptr) return 1;
              printf("text\n");
              const absl::Status status = FlushOutput();
              return absl::IsUnavailable(status) ? 7 : 2;
            }),
            7);
  EXPECT_TRUE(FlushOutput().ok());
}

}  // namespace
}  // namespace sluice
