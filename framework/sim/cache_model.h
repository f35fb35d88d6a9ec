// The cache that one worker has to itself, as a list of the blocks it touched last: what decides
// whether an instruction finds its operands there. Pure; one thread.
#ifndef SLUICE_FRAMEWORK_SIM_CACHE_MODEL_H_
#define SLUICE_FRAMEWORK_SIM_CACHE_MODEL_H_

#include <cstdint>
#include <list>
#include <map>

namespace sluice {

class CacheModel {
 public:
  static constexpr int64_t kBlock = 8192;

  explicit CacheModel(int64_t bytes) : capacity_(bytes / kBlock) {}

  // Touches [begin, begin + bytes) of a space of addresses; returns how many of them were not
  // there. The least recently touched block goes where there is no room.
  int64_t Touch(int64_t space, int64_t begin, int64_t bytes);
  // Another worker has written there.
  void Forget(int64_t space, int64_t begin, int64_t bytes);

 private:
  using Key = std::pair<int64_t, int64_t>;  // space, block
  const int64_t capacity_;
  std::list<Key> recent_;  // latest first
  std::map<Key, std::list<Key>::iterator> held_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_SIM_CACHE_MODEL_H_
