// When tokens were told to other ranks, and when pulls began and ended here, for a trace. Any
// thread.
#ifndef SLUICE_FRAMEWORK_RUNTIME_TRANSFER_TRACE_H_
#define SLUICE_FRAMEWORK_RUNTIME_TRANSFER_TRACE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/comm_net.h"
#include "framework/runtime/trace.h"

namespace sluice {

struct TransferSpan {
  bool told = false;  // a token of this rank to `peer`; else its bytes from `peer`
  int32_t peer = 0;
  Edge edge;
  int64_t sequence = 0, bytes = 0;
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
};

class TransferTrace {
 public:
  // A token that is told now.
  void Tell(const Edge& edge, int32_t peer, int64_t sequence) {
    const int64_t now = NowNanoseconds();
    std::lock_guard<std::mutex> lock(mutex_);
    spans_.push_back({true, peer, edge, sequence, 0, now, now});
  }
  // `span` without its times: it begins now.
  void BeginPull(int32_t pull, TransferSpan span) {
    span.begin = span.end = NowNanoseconds();
    std::lock_guard<std::mutex> lock(mutex_);
    open_[{pull, span.sequence}] = span;
  }
  void EndPull(int32_t pull, int64_t sequence) {
    const int64_t now = NowNanoseconds();
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = open_.find({pull, sequence});
    if (found == open_.end()) return;
    found->second.end = now;
    spans_.push_back(found->second);
    open_.erase(found);
  }
  // What is over.
  std::vector<TransferSpan> spans() {
    std::lock_guard<std::mutex> lock(mutex_);
    return spans_;
  }

 private:
  std::mutex mutex_;
  std::vector<TransferSpan> spans_;                           // guarded by mutex_
  std::map<std::pair<int32_t, int64_t>, TransferSpan> open_;  // by pull and sequence; the same
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_TRANSFER_TRACE_H_
