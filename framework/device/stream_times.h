// When a stream that runs late did what it was given: for timelines, which else would show only
// when it was given. A stream that can tell is one of these, too.
#ifndef SLUICE_FRAMEWORK_DEVICE_STREAM_TIMES_H_
#define SLUICE_FRAMEWORK_DEVICE_STREAM_TIMES_H_

#include <cstdint>
#include <vector>

namespace sluice {

struct StreamTime {
  int64_t begin = 0, end = 0;  // nanoseconds of the host's steady clock
};

// The thread that gives the stream its work.
class StreamTimes {
 public:
  virtual ~StreamTimes() = default;
  // From now on each instruction is timed. Once, before the first one.
  virtual void StartTimes() = 0;
  // How many instructions have been given since.
  virtual int64_t timed() const = 0;
  // Their times, in that order, of those that were done; waits for what is not. When nothing is
  // given any more.
  virtual std::vector<StreamTime> TakeTimes() = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DEVICE_STREAM_TIMES_H_
