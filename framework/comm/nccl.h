// NCCL's communicators of the devices of a process: one for each group of devices that collectives
// of its plan name, all begun before the first step. Devices of a group may be of several
// processes: that of the first device makes the group's id, and all are told. Every process begins
// its groups in one order, by their devices, so no two wait for each other in two of them.
//
// They do not block: what would have to wait says that it is in progress and is asked again, so
// that Abort ends it at any time. Each device's collectives are launched by a thread of that device
// alone (actor/worker_layout.h): a call may wait, inside of the library, for the calls of its peers
// (the first use of a group of cards connects them), and a thread that makes those, too, would wait
// for itself. To group the calls of all members is the other way that NCCL knows; there one member
// whose operands are not ready would hold up the launches of all others.
#ifndef SLUICE_FRAMEWORK_COMM_NCCL_H_
#define SLUICE_FRAMEWORK_COMM_NCCL_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/comm/communicators.h"
#include "framework/comm/introductions.h"
#include "framework/comm/nccl_functions.h"
#include "framework/tensor/dtype.h"

namespace sluice {

class NcclCommunicators;

// One device's end of a communicator. Its collectives are launched on one stream of the device, by
// one thread, in the order that all members have. Errors name the collective, the devices of the
// group, and what NCCL says.
class NcclMember {
 public:
  // Sums `count` elements over all members, for all of them.
  absl::Status AllReduceSum(const void* send, void* receive, int64_t count, DType dtype,
                            cudaStream_t stream);
  // Sums, and leaves the member of rank r the r-th run of `count` elements.
  absl::Status ReduceScatterSum(const void* send, void* receive, int64_t count, DType dtype,
                                cudaStream_t stream);
  // The runs of `count` elements of all members, in the order of ranks.
  absl::Status AllGather(const void* send, void* receive, int64_t count, DType dtype,
                         cudaStream_t stream);

 private:
  friend class NcclCommunicators;
  absl::Status Launch(absl::string_view name, int64_t count, DType dtype,
                      const std::function<ncclResult_t(ncclDataType_t)>& call);

  NcclCommunicators* all_ = nullptr;
  const CommunicatorGroup* group_ = nullptr;
  int32_t device_ = 0;
  int rank_ = 0;  // in the group
  int card_ = 0;
  std::mutex mutex_;             // while the library uses `handle_`, and while it is taken away
  ncclComm_t handle_ = nullptr;  // null: not connected yet, or aborted
};

class NcclCommunicators final : public Communicators {
 public:
  // `fail` is told, on a thread of its own, what NCCL finds wrong after a call; it calls Abort, or
  // sees to it. Errors: NCCL is not there.
  static absl::StatusOr<std::unique_ptr<NcclCommunicators>> Make(
      std::vector<CommunicatorGroup> groups, std::function<void(const absl::Status&)> fail);
  // Nothing may run any more.
  ~NcclCommunicators() override;

  absl::StatusOr<std::string> Introduce() override;
  absl::Status Connect(absl::string_view introductions) override;
  void Abort() override;
  // Null: there is no such group, or the device is not in it.
  NcclMember* Find(absl::Span<const int32_t> devices, int32_t device);

 private:
  friend class NcclMember;
  NcclCommunicators(const NcclFunctions& library, std::function<void(const absl::Status&)> fail)
      : library_(library), fail_(std::move(fail)) {}
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  absl::Status Begin(const ncclUniqueId& id, absl::Span<NcclMember* const> members);
  ncclResult_t BeginAll(const ncclUniqueId& id, absl::Span<NcclMember* const> members);
  ncclResult_t WaitUntilBegun(absl::Span<NcclMember* const> members);
  // What a member's communicator says, once it is no longer in progress.
  ncclResult_t Settle(NcclMember* member, ncclResult_t result);
  absl::Status StatusOf(const NcclMember& member, absl::string_view what, ncclResult_t result);
  void End();
  void Watch();

  const NcclFunctions& library_;
  const std::function<void(const absl::Status&)> fail_;
  std::vector<CommunicatorGroup> groups_;  // by their devices
  std::vector<std::unique_ptr<NcclMember>> members_;
  std::atomic<bool> aborted_{false};
  std::mutex watch_mutex_;
  std::condition_variable watch_ends_;
  bool ending_ = false;  // guarded by watch_mutex_
  std::thread watch_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_NCCL_H_
