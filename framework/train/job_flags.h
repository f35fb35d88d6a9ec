// What a user says of the processes of a job where no launcher does, or differently than it does.
#ifndef SLUICE_FRAMEWORK_TRAIN_JOB_FLAGS_H_
#define SLUICE_FRAMEWORK_TRAIN_JOB_FLAGS_H_

#include "absl/status/statusor.h"
#include "framework/cluster/launch_place.h"
#include "framework/train/flags.h"
#include "framework/train/job.h"

namespace sluice {

FlagGroup JobFlags();

// Of the flags, once they are read, and else of the environment. InvalidArgument names the flag or
// the variable.
absl::StatusOr<JobOptions> ReadJobFlags(const Environment& environment);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_JOB_FLAGS_H_
