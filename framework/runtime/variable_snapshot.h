// A copy of variables as they stand at one moment, made while steps go on: copy on write. A shard
// is copied by whoever comes first, the thread that wants the copy or the worker whose next
// instruction writes to the shard; the other waits for that one shard at most. As variables are
// only read until a step updates them, a step seldom finds one that is not copied yet.
#ifndef SLUICE_FRAMEWORK_RUNTIME_VARIABLE_SNAPSHOT_H_
#define SLUICE_FRAMEWORK_RUNTIME_VARIABLE_SNAPSHOT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "framework/plan/plan.pb.h"

namespace sluice {

class VariableSnapshot {
 public:
  // How to copy a shard of a variable; any thread calls it, of each snapshot one.
  struct ShardCopy {
    int32_t variable = 0, shard = 0;
    std::function<void()> copy;
  };

  explicit VariableSnapshot(const plan::Plan& plan);

  // What snapshots copy, each shard once. Only while nothing runs; what was begun before must be
  // finished.
  void Prepare(std::vector<ShardCopy> copies);
  // Copies them as they stand, once. As Prepare.
  void Begin();
  // Any thread: returns when all is copied and may be read.
  void Finish();
  // A worker, before it writes to shards, which are numbered here as the plan has them, variable by
  // variable. Allocates nothing.
  void BeforeWrite(absl::Span<const int32_t> shards) {
    if (left_.load(std::memory_order_acquire) == 0) return;
    for (const int32_t shard : shards) Copy(shard);
  }

 private:
  enum State : int32_t { kNone, kWanted, kBeingCopied };
  int32_t NumberOf(const ShardCopy& copy) const { return first_[copy.variable] + copy.shard; }
  // Returns when the shard is copied, if it is to be.
  void Copy(int32_t shard);

  std::vector<int32_t> first_;  // by variable: the number of its first shard
  std::vector<ShardCopy> copies_;
  std::vector<std::atomic<int32_t>> states_;  // by shard
  std::vector<int32_t> place_;                // by shard: which of copies_
  std::atomic<int32_t> left_ = 0;             // of copies_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_VARIABLE_SNAPSHOT_H_
