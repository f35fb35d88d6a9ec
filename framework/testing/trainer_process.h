// A trainer as people meet it: started as a process, in a folder of its own. The fixture of
// train_tests, of one thread.
#ifndef SLUICE_FRAMEWORK_TESTING_TRAINER_PROCESS_H_
#define SLUICE_FRAMEWORK_TESTING_TRAINER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {

struct EndedProcess {
  int code = -1;  // what it exited with, or minus the signal that ended it
  std::string out, error;
};

class TrainerProcessTest : public ::testing::Test {
 protected:
  // `program`: by its path among the test's data, "models/gpt/train".
  explicit TrainerProcessTest(const char* program) : program_(program) {}

  // An empty folder for each test; data sets are looked for in its `datasets`.
  void SetUp() override;

  // What it prints goes to files of the folder, stdout and stderr with `name` behind: processes
  // that run at once need one each. It is started in the folder `in` below folder().
  pid_t Start(std::vector<std::string> arguments, const std::string& name = "",
              const std::string& in = "");
  EndedProcess Wait(pid_t child, const std::string& name = "");
  EndedProcess Run(const std::vector<std::string>& arguments) { return Wait(Start(arguments)); }
  // As ranks of one job, each told by flags which it is; what rank 2 prints is in stdout2. `more`
  // are by rank; the last one's are those of the ranks after it, too.
  std::vector<pid_t> StartRanks(int ranks, const std::vector<std::string>& arguments,
                                const std::vector<std::vector<std::string>>& more = {{}});

  // Where nobody listens, on this host.
  static std::string FreeAddress();

  // Files of the folder, by name; of one that cannot be read the error.
  std::string Read(const std::string& name) const;
  void Write(const std::string& name, const std::string& text) const;
  const std::string& folder() const { return folder_; }

 private:
  std::string program_, folder_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_TRAINER_PROCESS_H_
