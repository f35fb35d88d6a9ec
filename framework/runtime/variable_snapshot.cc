#include "framework/runtime/variable_snapshot.h"

#include <utility>

#include "framework/base/log.h"

namespace sluice {

VariableSnapshot::VariableSnapshot(const plan::Plan& plan) {
  int32_t shards = 0;
  for (const plan::Variable& variable : plan.variables()) {
    first_.push_back(shards);
    shards += variable.shards_size();
  }
  states_ = std::vector<std::atomic<int32_t>>(shards);
  place_.resize(shards);
}

void VariableSnapshot::Prepare(std::vector<ShardCopy> copies) {
  SLUICE_CHECK_EQ(left_.load(), 0) << "shards of the snapshot before are not copied yet";
  copies_ = std::move(copies);
  for (size_t n = 0; n < copies_.size(); ++n) {
    place_[NumberOf(copies_[n])] = static_cast<int32_t>(n);
  }
}

void VariableSnapshot::Begin() {
  SLUICE_CHECK_EQ(left_.load(), 0) << "shards of the snapshot before are not copied yet";
  left_.store(static_cast<int32_t>(copies_.size()));
  for (const ShardCopy& each : copies_) {
    SLUICE_CHECK_EQ(states_[NumberOf(each)].exchange(kWanted), kNone) << "a shard twice";
  }
}

void VariableSnapshot::Finish() {
  for (const ShardCopy& each : copies_) Copy(NumberOf(each));
}

void VariableSnapshot::Copy(int32_t shard) {
  std::atomic<int32_t>& state = states_[shard];
  int32_t seen = kWanted;
  if (state.compare_exchange_strong(seen, kBeingCopied)) {
    copies_[place_[shard]].copy();
    // First, so that nothing is left to do for whoever is told below.
    left_.fetch_sub(1);
    state.store(kNone);
    state.notify_all();
    return;
  }
  while (seen == kBeingCopied) {
    state.wait(kBeingCopied);
    seen = state.load();
  }
}

}  // namespace sluice
