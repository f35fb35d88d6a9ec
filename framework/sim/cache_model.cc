#include "framework/sim/cache_model.h"

#include <algorithm>

namespace sluice {

int64_t CacheModel::Touch(int64_t space, int64_t begin, int64_t bytes) {
  const int64_t end = begin + bytes;
  int64_t missed = 0;
  for (int64_t block = begin / kBlock; block * kBlock < end; ++block) {
    const Key key(space, block);
    const auto found = held_.find(key);
    if (found != held_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      continue;
    }
    missed += std::min(end, (block + 1) * kBlock) - std::max(begin, block * kBlock);
    recent_.push_front(key);
    held_[key] = recent_.begin();
    if (static_cast<int64_t>(held_.size()) <= capacity_) continue;
    held_.erase(recent_.back());
    recent_.pop_back();
  }
  return missed;
}

void CacheModel::Forget(int64_t space, int64_t begin, int64_t bytes) {
  for (int64_t block = begin / kBlock; block * kBlock < begin + bytes; ++block) {
    const auto found = held_.find({space, block});
    if (found == held_.end()) continue;
    recent_.erase(found->second);
    held_.erase(found);
  }
}

}  // namespace sluice
