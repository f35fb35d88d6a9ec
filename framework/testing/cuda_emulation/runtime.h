// The state behind the runtime's calls: devices, streams and their work, and the one lock.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_RUNTIME_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/testing/cuda_emulation/emulation.h"
#include "framework/testing/cuda_emulation/memory.h"
#include "framework/testing/cuda_emulation/operation.h"
#include "framework/testing/xorshift.h"

namespace sluice::cuda_emulation {

class Capture;

// A queue of work. Its operations run one after the other; other streams' in any order with them.
struct Stream {
  uint32_t index = 0;  // in clocks
  int device = 0;
  bool is_busy = false;  // its head calls the host, without the lock
  bool is_open = true;   // not destroyed
  Clock clock;           // of what it has been given
  // Of what it has done, with what was before the calls that its own have met: nobody could know of
  // those when the work was given.
  Clock done;
  std::deque<std::shared_ptr<Operation>> queue;
  std::shared_ptr<const OperandRanges> operands;
  std::shared_ptr<Capture> capture;
};

struct Event {
  unsigned flags = 0;
  int device = 0;
  std::shared_ptr<Mark> mark;  // of the last record; null before
  // The capture that the last record belongs to, and its number there.
  std::shared_ptr<Capture> capture;
  int capture_record = 0;
};

// Host memory that a copy uses which the host has not waited for: rows of `width` bytes.
struct HostRange {
  uintptr_t begin;
  size_t width, rows, pitch;
  bool written;
  uint32_t stream = 0, number = 0;  // of the operation
  bool copied = false;              // the copy has run
  // Others of these bytes, one of the two writes them; until the copy has run.
  std::vector<std::shared_ptr<const HostRange>> conflicts = {};
};

using Lock = std::unique_lock<std::mutex>;

struct Runtime {
  // Guards all of the emulation, and what follows but errors.
  std::mutex mutex;
  // Work was added or has ended.
  std::condition_variable changed;

  Options options;
  Memory memory;
  Xorshift random{1};
  Statistics statistics;
  cudaError_t sticky = cudaSuccess;

  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<uint32_t> free_indices;
  std::vector<uint32_t> last_numbers;  // of streams' operations, by index
  Clock host_clock;                    // what some thread of the host has waited for
  std::vector<std::shared_ptr<HostRange>> host_ranges;
  // Stream and number of operations that meet others and have not run.
  std::vector<std::pair<uint32_t, uint32_t>> meetings;
  std::map<uintptr_t, size_t> registered;  // host memory that others allocated
  std::set<std::pair<int, int>> peers;     // device, and the peer that it may touch
  // Kernels that have been launched or asked about, and what dynamic shared memory each may have.
  std::map<std::pair<int, const void*>, size_t> kernels;
  std::vector<std::shared_ptr<Capture>> captures;  // under way
  std::map<cudaStream_t, Stream*> stream_handles;
  std::map<cudaEvent_t, std::shared_ptr<Event>> event_handles;
  uintptr_t last_handle = 0x1000;  // never used again

  std::mutex errors_mutex;
  std::vector<std::string> errors;  // guarded by it

  Runtime() { Begin(Options()); }
  // As a process begins.
  void Begin(const Options& new_options);

  // ---- Streams ----
  Stream* AddStream(int device);
  // Gone once it is empty.
  void CloseStream(Stream* stream);
  // `what` runs when the stream comes to it. Serves others first if the stream is full.
  Operation* Enqueue(Lock& lock, Stream* stream, OperationName name, std::function<void()> run);
  std::shared_ptr<Mark> EnqueueRecord(Lock& lock, Stream* stream);
  void EnqueueWait(Lock& lock, Stream* stream, std::shared_ptr<Mark> mark);
  // The stream that synchronous calls of a device use.
  Stream* SynchronousStream(int device);

  // ---- Serving ----
  // Runs the head of a stream, chosen by chance. False if no head could.
  bool RunOne();
  // Runs heads until `done` says so, or an error has ended all.
  void ServeUntil(Lock& lock, const std::function<bool()>& done);
  void Drain(Lock& lock, Stream* stream);
  void DrainDevice(Lock& lock, int device);
  void DrainAll(Lock& lock);
  // The host knows that it is done.
  void HostSees(const Clock& clock);

  bool IsPinned(const void* begin, size_t bytes) const;
  // Of the clock of an operation: whether it comes after one that is yet to meet others. What is
  // before those, which the host may not even have given yet, is before it, too.
  bool WaitsForMeeting(const Clock& clock) const;

 private:
  void Execute(Stream* stream);
  void EndExecution(const Operation& operation, Stream* stream);
  void WaitForOthers(Lock& lock);

  std::map<int, Stream*> synchronous_streams_;
};

Runtime& TheRuntime();

// Keeps the first eight. Any thread, with the lock or without.
void Report(const std::string& error);
// No more are kept, so words need not be made.
bool ReportsAreFull();

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_RUNTIME_H_
