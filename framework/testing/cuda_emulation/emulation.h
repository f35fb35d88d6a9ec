// Runs CUDA programs on a CPU, for tests: cuda_runtime.h and its like in include/ stand for the
// toolkit's headers, and the sources do not change.
//
// Streams are queues. Work waits in them until a thread of the host waits or asks; then their heads
// run one at a time, in an order that only the seed and events decide. Threads of a kernel run one
// after the other, also in an order of the seed. Kernels are compiled by gcc with
// -fsanitize=thread,alignment,bounds,signed-integer-overflow and linked without: the calls that gcc
// then makes are to this library, which checks every access of a kernel, and every copy:
//   that it is inside of a live allocation of the kernel's device, aligned, and inside of the
//   operands of its instruction (framework/device/cuda_operand_watch.h);
//   that what it reads was written;
//   that it is ordered after each access it conflicts with, by barriers, streams and events. What
//   is not ordered is found whatever the order was.
// README.md beside has what is found, how, and how fast.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_EMULATION_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_EMULATION_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cuda_emulation {

struct Options {
  uint64_t seed = 1;
  int devices = 8;  // at most 16
  size_t bytes_per_device = size_t{1} << 30;
  // Few, so that kernels which cover an array by a stride loop do loop.
  int multiprocessors = 4;
  int major = 9, minor = 0;  // compute capability
};

// As if the process began anew: memory, streams and events of before are gone, errors and counts
// too. Without a call all is as Options() say. While no other thread calls the runtime.
void Reset(const Options& options);
void Reset(uint64_t seed);

// Whether accesses are checked; they are from the start. What is in memory when checks come on
// counts as written, and as ordered before all that follows.
void SetChecks(bool on);

// What was found: the first eight, in words. A process that ends with errors that nobody took
// prints them and ends with status 66, whatever its tests say.
std::vector<std::string> Errors();
std::vector<std::string> TakeErrors();

// Since the start or Reset().
struct Statistics {
  int64_t launches = 0;  // calls, not those that a graph repeats
  int64_t kernels = 0;   // that have run
  int64_t copies = 0;    // that have run
  int64_t copied_bytes = 0;
  int64_t staged_copies = 0;  // between devices that may not touch each other's memory
  int64_t fills = 0;
  int64_t host_functions = 0;
  int64_t event_records = 0;
  int64_t event_waits = 0;
  int64_t graph_launches = 0;
  int64_t allocations = 0;  // calls that allocate, free or register memory
  int64_t library_calls = 0;
};
Statistics GetStatistics();

// What the launches of a kernel have moved together: bytes of device memory that each loaded and
// stored, every byte once, however often the launch touched it.
struct KernelTraffic {
  std::string kernel;  // "SoftmaxRows<float>"
  int64_t launches = 0;
  int64_t loaded = 0, stored = 0;
};
// Counts it from now on, or no more, where accesses are checked. While nothing runs on a device.
void CountTraffic(bool on);
// By name; it is forgotten.
std::vector<KernelTraffic> TakeTraffic();

// ---- For emulations of libraries beside (cuBLASLt, NCCL) ----

// Rows of bytes that a call reads or writes; all of them, one access.
struct LibraryAccess {
  const void* begin = nullptr;
  size_t bytes = 0;  // of a row
  bool written = false;
  size_t rows = 1, stride = 0;  // from row to row, in bytes
};

// Where calls of several streams meet, none of which ends before all have begun: what stands before
// any of them stands before what follows each. Of their own accesses it says nothing.
class Clock;
using MeetingPoint = std::shared_ptr<Clock>;
MeetingPoint NewMeetingPoint();

struct LibraryCall {
  std::string name;
  // Checked as a kernel's accesses are, the reads before the writes, in this order.
  std::vector<LibraryAccess> accesses;
  // Does it, when the stream comes to it.
  std::function<void()> compute;
  // If set: the stream waits here until it says true. It is asked now and then once all before is
  // done, as the head of the stream.
  std::function<bool()> ready;
  std::vector<MeetingPoint> meets = {};
};
cudaError_t EnqueueLibraryCall(cudaStream_t stream, LibraryCall call);

// What a library finds wrong that its own status does not tell.
void ReportError(const std::string& error);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_EMULATION_H_
