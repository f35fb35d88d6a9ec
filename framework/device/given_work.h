// What a stream was given, in order, so that an error which comes late can name what it may be of:
// a card tells that something has failed, not what. Numbers are the owner's.
#ifndef SLUICE_FRAMEWORK_DEVICE_GIVEN_WORK_H_
#define SLUICE_FRAMEWORK_DEVICE_GIVEN_WORK_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace sluice {

class GivenWork {
 public:
  static constexpr uint64_t kKept = 1024;

  // The thread that gives the stream its work.
  void Give(int32_t number) {
    const uint64_t n = given_.load(std::memory_order_relaxed);
    numbers_[n % kKept].store(number, std::memory_order_relaxed);
    given_.store(n + 1, std::memory_order_release);
  }
  // How many so far. Any thread, as is what follows.
  uint64_t given() const { return given_.load(std::memory_order_acquire); }
  // From the one that was given after `from` others on; of more than kKept the newest. While the
  // stream is given more, the oldest may be newer ones.
  std::vector<int32_t> From(uint64_t from) const {
    const uint64_t end = given();
    if (end > kKept) from = std::max(from, end - kKept);
    std::vector<int32_t> numbers;
    for (uint64_t n = from; n < end; ++n) {
      numbers.push_back(numbers_[n % kKept].load(std::memory_order_relaxed));
    }
    return numbers;
  }

 private:
  std::array<std::atomic<int32_t>, kKept> numbers_ = {};
  std::atomic<uint64_t> given_{0};
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_GIVEN_WORK_H_
