// What the ranks of a job must have alike: what they were told, and what they read. Each fact is
// compared by its value, which of a file is a digest of its bytes, as each host may have a copy of
// its own, at a path of its own, and a copy may be stale. One thread.
#ifndef SLUICE_FRAMEWORK_TRAIN_RUN_AGREEMENT_H_
#define SLUICE_FRAMEWORK_TRAIN_RUN_AGREEMENT_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/stop.h"

namespace sluice {

struct RunFact {
  std::string name;        // begins the error where ranks differ: "--seed", "--data, held-out"
  std::string value;       // what is compared; empty: as if there were no such fact
  std::string shown = {};  // what the error says of each side, if that is not the value
  std::string cure = {};   // what ends the error, if that needs saying
};

class RunFacts {
 public:
  void Add(RunFact fact);

  // For another rank, and back from its text. DataLoss where the text is none that ToText gave.
  std::string ToText() const;
  static absl::StatusOr<RunFacts> FromText(absl::string_view text);

  // FailedPrecondition names the first fact that `other`, of rank `rank`, has not as this one of
  // rank 0 has it, with both.
  absl::Status CheckSame(const RunFacts& other, int rank) const;

 private:
  const RunFact* Find(absl::string_view name) const;

  std::vector<RunFact> facts_;
};

// What the first rank says of the run that all of them write together.
struct SharedRun {
  std::string out;     // its folder
  std::string holder;  // what stands in the folder's lock; empty: nobody looks
  std::vector<std::pair<std::string, std::string>> recorded;  // AppOptions::recorded

  std::string ToText() const;
  static absl::StatusOr<SharedRun> FromText(absl::string_view text);
};

// Whether this rank sees the folder that rank 0 has locked. FailedPrecondition where it has not
// shown within `limit`: a checkpoint whose parts lie in folders of several hosts is none. Network
// file systems may show for a minute what was there before. Cancelled where `stop` says so.
absl::Status CheckFolderIsShared(const SharedRun& shared, int rank, std::chrono::milliseconds limit,
                                 const Stop& stop);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_RUN_AGREEMENT_H_
