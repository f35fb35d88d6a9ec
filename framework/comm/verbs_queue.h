// A queue pair to one other rank: reads of its memory, by the two devices alone. Reads end in any
// order. After the first that fails all that are on their way fail, and none is begun any more.
#ifndef SLUICE_FRAMEWORK_COMM_VERBS_QUEUE_H_
#define SLUICE_FRAMEWORK_COMM_VERBS_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/comm/comm_net.h"
#include "framework/comm/frames.h"
#include "framework/comm/verbs.h"
#include "framework/comm/verbs_device.h"

namespace sluice {

class VerbsQueue {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // A read has ended: its bytes are there, or nothing will write any more to where they should
    // be. On the loop's thread, or the one that reads.
    virtual void OnReadEnded(int32_t read, const absl::Status& status) = 0;
  };

  // The device is not started yet. `device` and `owner` must outlive it. `name` is the other
  // rank's, for people: what fails is logged once.
  static absl::StatusOr<std::unique_ptr<VerbsQueue>> Make(VerbsDevice* device,
                                                          const std::string& name, Owner* owner);
  ~VerbsQueue();  // closed, or its device was never started

  // Of this end: a kVerbs, which the other end connects to.
  Frame Introduction() const;
  // Once: what the other end has said of itself. False: that cannot be reached; it is logged why.
  // Any thread.
  bool Connect(const VerbsAddress& other, std::vector<VerbsRegion> regions);
  // Fills `to` with what the request names of the slot; OnReadEnded is told `read`, which numbers
  // one that does not run yet. False, and nothing is begun: it is not connected, or has failed; the
  // place is none of the other's regions or `to` is no memory of this rank's, or the slot has not
  // all of the pieces, or they are so many runs that their owner had better gather them. Any
  // thread.
  bool Read(int32_t read, const PullRequest& request, const MemoryPlace& place, std::byte* to);
  // No byte is written any more; nothing is told.
  void Close();

 private:
  friend class VerbsDevice;

  // Of one read: at most as many bytes as the device reads at once.
  struct Part {
    int32_t read;
    uint32_t key, local_key;
    uint64_t address;
    std::byte* to;
    uint64_t bytes;
  };
  struct Reading {
    int64_t parts = 0;  // that have not ended
    absl::Status status;
    Edge edge;
  };

  VerbsQueue(VerbsDevice* device, const std::string& name, Owner* owner)
      : device_(*device), name_(name), owner_(*owner) {}
  absl::Status Create();
  absl::Status Initialize();
  absl::Status BeginToServe(const VerbsAddress& other);
  absl::Status BeginToRead(const VerbsAddress& other);
  absl::Status Modify(ibv_qp_attr* attributes, int mask, const char* to);
  // The device, of one part.
  void OnCompletion(int32_t read, ibv_wc_status status);
  // All three: mutex_ is held; reads that ended by it are added.
  void Post(std::vector<int32_t>* ended);
  void Fail(int32_t read, const absl::Status& why, std::vector<int32_t>* ended);
  void EndPart(int32_t read, std::vector<int32_t>* ended);
  void Tell(const std::vector<int32_t>& ended);

  VerbsDevice& device_;
  const std::string name_;
  Owner& owner_;
  uint64_t number_ = 0;  // among the device's
  VerbsAddress address_;

  std::mutex mutex_;
  ibv_qp* pair_ = nullptr;  // all guarded by mutex_
  bool connected_ = false;
  absl::Status failed_;
  std::vector<VerbsRegion> regions_;
  std::deque<Part> waiting_;  // until there is room
  uint32_t posted_ = 0;
  std::map<int32_t, Reading> readings_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_VERBS_QUEUE_H_
