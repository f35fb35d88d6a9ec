#include "framework/testing/trainer_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "framework/checkpoint/file.h"
#include "framework/wire/socket.h"

namespace sluice {

namespace fs = std::filesystem;

// The system gives connections ports from 32768 on, as a rule: one of those could be another
// process's by the time that rank 0 wants it.
std::string TrainerProcessTest::FreeAddress() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(15000, 32000);
  while (true) {
    const Endpoint address = {"127.0.0.1", ports(random)};
    if (Listen(address).ok()) return EndpointText(address);
  }
}

void TrainerProcessTest::SetUp() {
  folder_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::remove_all(folder_);
  fs::create_directories(folder_ + "/datasets");
}

pid_t TrainerProcessTest::Start(std::vector<std::string> arguments, const std::string& name,
                                const std::string& in) {
  const std::string program = (fs::current_path() / program_).string();
  arguments.insert(arguments.begin(), program);
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("BUILD_WORKING_DIRECTORY", (folder_ + "/" + in).c_str(), 1);
  setenv("SLUICE_DATASETS", (folder_ + "/datasets").c_str(), 1);
  if (freopen((folder_ + "/stdout" + name).c_str(), "w", stdout) == nullptr) _exit(99);
  if (freopen((folder_ + "/stderr" + name).c_str(), "w", stderr) == nullptr) _exit(99);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(98);
}

std::vector<pid_t> TrainerProcessTest::StartRanks(
    int ranks, const std::vector<std::string>& arguments,
    const std::vector<std::vector<std::string>>& more) {
  std::vector<pid_t> children;
  const std::string address = FreeAddress();
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> own = arguments;
    own.insert(own.end(), {absl::StrCat("--ranks=", ranks), absl::StrCat("--rank=", rank),
                           absl::StrCat("--rendezvous=", address)});
    const auto& added = more[std::min<size_t>(rank, more.size() - 1)];
    own.insert(own.end(), added.begin(), added.end());
    children.push_back(Start(own, absl::StrCat(rank)));
  }
  return children;
}

EndedProcess TrainerProcessTest::Wait(pid_t child, const std::string& name) {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), Read("stdout" + name),
          Read("stderr" + name)};
}

std::string TrainerProcessTest::Read(const std::string& name) const {
  absl::StatusOr<std::string> text = ReadText(folder_ + "/" + name, 1 << 24);
  return text.ok() ? *text : std::string(text.status().message());
}

void TrainerProcessTest::Write(const std::string& name, const std::string& text) const {
  FILE* const file = fopen((folder_ + "/" + name).c_str(), "w");
  ASSERT_NE(file, nullptr) << name;
  fputs(text.c_str(), file);
  fclose(file);
}

}  // namespace sluice
