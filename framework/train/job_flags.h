// What a user says of the processes of a job where no launcher does, or differently than it does.
#ifndef SLUICE_FRAMEWORK_TRAIN_JOB_FLAGS_H_
#define SLUICE_FRAMEWORK_TRAIN_JOB_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/cluster/launch_place.h"
#include "framework/machine/machine.h"
#include "framework/session/session.h"
#include "framework/train/flags.h"
#include "framework/train/job.h"

namespace sluice {

FlagGroup JobFlags();

// Of the flags, once they are read, and else of the environment. InvalidArgument names the flag or
// the variable.
absl::StatusOr<JobOptions> ReadJobFlags(const Environment& environment);

// What a program needs that is begun anew in its process (exec), to be the same rank again.
struct NextStart {
  std::vector<std::string> flags;
  std::vector<std::pair<std::string, std::string>> environment;
};
// All ranks ask together, once nothing but the end of their sessions is left: a net serves one. The
// first rank listens at a free port, on the host where it did, and all learn which; the socket is
// inherited. Of one rank nothing is needed.
absl::StatusOr<NextStart> MeetAgain(const JobOptions& options, Session* session);

// Which devices of a mesh each rank has, for people: "rank 0: 0 to 3, rank 1: 4 to 7"; where the
// machine has several hosts "rank 0 on host 0: 0 to 3, ...".
absl::StatusOr<std::string> DevicesOfRanks(const std::string& mesh, int32_t ranks,
                                           const Machine& machine);
// The first lines of a log: the mesh and who launched it, where the ranks are, which devices each
// has and what the links cost. Of one rank: nothing.
absl::StatusOr<std::string> DescribeJob(const Job& job, const LaunchPlace& place,
                                        const SessionOptions& session);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_JOB_FLAGS_H_
