// What the runtime itself takes: an instruction beside its kernel, a message between two workers.
// One thread calls it; it starts others.
#ifndef SLUICE_BENCH_MESSAGE_TIMES_H_
#define SLUICE_BENCH_MESSAGE_TIMES_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace sluice {

// Nanoseconds.
struct MessageTimes {
  int64_t launch = 0;  // an instruction of a script, without its kernel
  int64_t awake = 0;   // a message until another thread has it that spins for it
  int64_t asleep = 0;  // the same where the other sleeps
};

absl::StatusOr<MessageTimes> MeasureMessages();

}  // namespace sluice

#endif  // SLUICE_BENCH_MESSAGE_TIMES_H_
