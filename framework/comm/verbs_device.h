// An RDMA device of this host, as one rank has it: its memory that others may read, and the
// completions of what this rank reads of theirs. All queue pairs to other ranks share it
// (verbs_queue.h).
#ifndef SLUICE_FRAMEWORK_COMM_VERBS_DEVICE_H_
#define SLUICE_FRAMEWORK_COMM_VERBS_DEVICE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/comm/frames.h"
#include "framework/comm/verbs.h"
#include "framework/comm/verbs_library.h"
#include "framework/wire/event_loop.h"

namespace sluice {

class VerbsQueue;

class VerbsDevice {
 public:
  // For `queues` queue pairs. NotFound: no such device, or none at all. FailedPrecondition: no
  // active port. `loop` must outlive it.
  static absl::StatusOr<std::unique_ptr<VerbsDevice>> Open(EventLoop* loop, int32_t queues,
                                                           const VerbsOptions& options);
  ~VerbsDevice();  // its queues are closed, and so is it

  // Before any queue is connected: memory that others may read, and that this rank reads into. It
  // is pinned until Close. ResourceExhausted names the bytes and the limit.
  absl::Status Register(absl::Span<std::byte> memory);
  const std::vector<VerbsRegion>& regions() const { return regions_; }
  // Which registered memory has all of the bytes; -1: none.
  MemoryPlace PlaceOf(absl::Span<const std::byte> bytes) const;

  // The loop's thread: between them completions are told to their queues.
  absl::Status Start();
  void Close();

  const std::string& name() const { return name_; }  // "mlx5_0:1"
  // What is the same in the addresses of all its queue pairs.
  const VerbsAddress& address() const { return address_; }

 private:
  friend class VerbsQueue;

  VerbsDevice(EventLoop* loop, const VerbsOptions& options, const VerbsLibrary& library);
  absl::Status OpenNamed(absl::Span<ibv_device* const> devices);
  absl::Status OpenPort(ibv_device* device, int port);
  absl::Status FindGid(const ibv_port_attr& port);
  absl::Status MakeCompletions(int32_t queues);
  void CloseContext();
  void OnCompletions();
  int Complete();  // how many there were
  void OnEvents();

  EventLoop& loop_;
  const VerbsOptions options_;
  const VerbsLibrary& library_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  std::vector<ibv_mr*> memory_;
  std::vector<VerbsRegion> regions_;

  std::string name_;
  VerbsAddress address_;
  ibv_device_attr limits_ = {};
  uint8_t port_ = 1, gid_index_ = 0;
  bool by_gid_ = true;        // ranks are reached by their gid, not by their lid
  uint64_t most_bytes_ = 0;   // of one read
  uint32_t most_posted_ = 0;  // reads of one queue

  std::vector<VerbsQueue*> queues_;  // by number; all there before Start
  std::atomic<int64_t> posted_{0};   // reads of all queues
  std::array<EventLoop::Watch, 2> watches_ = {};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // the loop's thread's
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_VERBS_DEVICE_H_
