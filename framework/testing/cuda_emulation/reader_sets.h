// Sets of operations that read the same bytes in streams that nothing orders. They are few and the
// cells that have them many, so each set is there once, and has a number.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_READER_SETS_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_READER_SETS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace sluice::cuda_emulation {

class ReaderSets {
 public:
  using Set = std::vector<uint32_t>;  // ascending

  const Set& operator[](uint32_t number) const { return *sets_[number]; }
  // The number of the set, 0 if it is empty.
  uint32_t NumberOf(Set set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    const auto [found, is_new] = numbers_.emplace(std::move(set), sets_.size());
    if (is_new) sets_.push_back(&found->first);
    return found->second;
  }
  void Clear() {
    numbers_.clear();
    sets_.clear();
    NumberOf({});
  }
  ReaderSets() { Clear(); }

 private:
  std::map<Set, uint32_t> numbers_;
  std::vector<const Set*> sets_;
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_READER_SETS_H_
