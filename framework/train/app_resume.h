// Going on with a run: which of its options hold, which may be changed, and when a command that
// begins a run means one that is there already. Called while flags are read.
#ifndef SLUICE_FRAMEWORK_TRAIN_APP_RESUME_H_
#define SLUICE_FRAMEWORK_TRAIN_APP_RESUME_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/cluster/launch_place.h"
#include "framework/train/app_options.h"
#include "framework/train/flags.h"

namespace sluice {

// The recorded flag that says which checkpoint a run began with (--init). Unlike the others it is
// not taken up by --resume, because a checkpoint must not name a file that this process reads.
constexpr char kInitFlag[] = "init";
// Beside it, what Checkpoint::digest gave: the same checkpoint may be stored elsewhere.
constexpr char kInitDigest[] = "init_digest";

// What a run that goes on needs to know of the flags of a program.
struct RunFlags {
  const AppFlags& app;
  const std::vector<FlagGroup>& groups;
  const std::set<std::string>& recorded;
};

// Finds the checkpoint that --resume names as `path`, and gives the flags that were not given the
// values of its run; options->changed lists those that were given otherwise. `again`: the command
// line is the one that began the run, its preset included. InvalidArgument names a flag that a run
// cannot change, such as the optimizer, whose state the checkpoint has.
absl::Status TakeUpRun(const RunFlags& flags, const std::string& path, bool again,
                       ParsedFlags* parsed, AppOptions* options);

// Whether the command line goes on with the run in the folder --out, as the very command that began
// it does when it is given again: by people, by Slurm, by a launcher that restarts a job. A run
// that has saved nothing begins anew. The flags have been read, and the preset applied.
// Paths are no options: what is read by them is compared when the run goes on. AlreadyExists where
// the run there has other options: they are named.
absl::StatusOr<bool> GoesOnWithRun(const RunFlags& flags, const LaunchPlace& place,
                                   const std::string& out, const std::string& init);

// --init: reads what the checkpoint says of itself. InvalidArgument where the model means something
// else by the same parameters: AppFlags::meaning names flags.
absl::Status ReadInit(const RunFlags& flags, const std::string& path, AppOptions* options);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_APP_RESUME_H_
