// Work that a stream has been given, and the order that streams and events put it in.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_OPERATION_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_OPERATION_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cuda_emulation {

// A vector clock: for each stream, how many of its operations come before.
class Clock {
 public:
  uint32_t operator[](uint32_t stream) const {
    return stream < counts_.size() ? counts_[stream] : 0;
  }
  uint32_t Advance(uint32_t stream) {
    if (counts_.size() <= stream) counts_.resize(stream + 1);
    return ++counts_[stream];
  }
  void Join(const Clock& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i) {
      counts_[i] = std::max(counts_[i], other.counts_[i]);
    }
  }

 private:
  std::vector<uint32_t> counts_;
};

// A point of a stream, which events record.
struct Mark {
  Clock clock;
  bool reached = false;
  std::chrono::steady_clock::time_point time;
};

// What an instruction may touch, see framework/device/cuda_operand_watch.h.
struct OperandRange {
  uintptr_t begin, end;
  bool written;
};
using OperandRanges = std::vector<OperandRange>;

// What reports call an operation.
struct OperationName {
  const char* kind = "";           // "kernel"
  const void* function = nullptr;  // of a kernel
  std::string detail;              // of a library's call
};

struct Operation {
  OperationName name;
  uint32_t stream = 0, number = 0;
  int device = 0;
  Clock clock;
  std::shared_ptr<const OperandRanges> operands;  // null: any
  std::function<bool()> ready;                    // null: when it is the head
  std::function<void()> begin;                    // null, or: once, when nothing is before it
  std::function<void()> run;
  std::vector<std::shared_ptr<Clock>> meets;  // see MeetingPoint
  bool calls_host = false;                    // runs without the lock
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_OPERATION_H_
