// Which process of a job this is, as the launcher that started it says by environment variables:
// torchrun, mpirun, srun, a pod of Kubernetes or //tools:launch. Pure: it opens and asks nothing.
// docs/launching.md lists the variables.
#ifndef SLUICE_FRAMEWORK_CLUSTER_LAUNCH_PLACE_H_
#define SLUICE_FRAMEWORK_CLUSTER_LAUNCH_PLACE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct LaunchPlace {
  std::string launcher;  // for people: "torchrun", "srun", "//tools:launch", ...; "": alone
  int32_t rank = 0, ranks = 1;
  // Among the ranks of this host. `local_ranks` is 0 where the launcher does not say how many.
  int32_t local_rank = 0, local_ranks = 1;
  int32_t restarts = 0;  // how often the job was begun again
  std::string address;   // "host:port" at which rank 0 waits for the others; empty if `ranks` is 1
  // Inherited descriptors; -1: none. The listener is the caller's from here on.
  int listener = -1;       // rank 0 of //tools:launch: a socket that listens at `address`
  int secret = -1;         // the job's secret: 32 bytes, to be read by pread from 0
  std::string counted_by;  // what says how many ranks there are: "WORLD_SIZE=16", "--ranks=4"
  std::string text;        // "srun: rank 3 of 16, local 3 of 8, rendezvous at gnode10:29500"
};

// The shape of getenv: the variable's value, or null. A variable that is set to "" counts as unset.
using Environment = std::function<const char*(const char* name)>;

// The first that `environment` is complete for: //tools:launch; torchrun and its like; Open MPI;
// PMI (MPICH, Intel MPI); a step of Slurm; a pod of a PyTorchJob; a pod with PET_ variables or of
// an indexed Job, with a node count; else this process is alone. `rendezvous`, the user's
// "host:port", is the address whatever the environment says, and needed where it cannot say one.
// InvalidArgument: a value is malformed or missing; the variable, what was expected and what is
// there are named.
absl::StatusOr<LaunchPlace> ReadLaunchPlace(const Environment& environment,
                                            absl::string_view rendezvous = "");

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_CLUSTER_LAUNCH_PLACE_H_
