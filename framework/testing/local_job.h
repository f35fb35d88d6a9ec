// A job whose ranks are all in this process and meet as processes do: by rendezvous, over TCP.
#ifndef SLUICE_FRAMEWORK_TESTING_LOCAL_JOB_H_
#define SLUICE_FRAMEWORK_TESTING_LOCAL_JOB_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/comm/comm_net.h"
#include "framework/train/job.h"

namespace sluice {

class LocalJob {
 public:
  static absl::StatusOr<std::unique_ptr<LocalJob>> Start(int32_t ranks, bool read_memory,
                                                         bool seal);
  CommNet* net(int32_t rank) const { return nets_[rank]; }

 private:
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<CommNet*> nets_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_LOCAL_JOB_H_
