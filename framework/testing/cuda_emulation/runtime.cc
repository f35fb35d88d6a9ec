#include "framework/testing/cuda_emulation/runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/types/span.h"
#include "framework/device/cuda_operand_watch.h"
#include "framework/testing/cuda_emulation/access.h"
#include "framework/testing/cuda_emulation/call.h"

namespace sluice::cuda_emulation {
namespace {

// As many operations a stream holds before its host waits.
constexpr size_t kMostWaiting = 512;
constexpr int kStuckSeconds = 120;
constexpr size_t kMostErrors = 8;

void FailOnErrors() {
  Runtime& runtime = TheRuntime();
  if (runtime.errors.empty()) return;
  std::fprintf(stderr, "CUDA emulation: errors that nobody took:\n");
  for (const std::string& error : runtime.errors) std::fprintf(stderr, "  %s\n", error.c_str());
  std::fflush(nullptr);
  std::_Exit(66);
}

void SetOperands(CUstream_st* handle, absl::Span<const CudaOperand> operands) {
  Runtime& runtime = TheRuntime();
  Lock lock(runtime.mutex);
  const auto found = runtime.stream_handles.find(handle);
  if (found == runtime.stream_handles.end()) return;
  Stream& stream = *found->second;
  stream.operands = nullptr;
  if (operands.empty()) return;
  auto ranges = std::make_shared<OperandRanges>();
  for (const CudaOperand& operand : operands) {
    const auto begin = reinterpret_cast<uintptr_t>(operand.begin);
    ranges->push_back({begin, begin + static_cast<uintptr_t>(operand.bytes), operand.written});
  }
  stream.operands = std::move(ranges);
}

// No test that links the emulation can forget to set it.
const bool operands_are_watched = [] {
  SetCudaOperandWatch(SetOperands);
  return true;
}();

}  // namespace

Runtime& TheRuntime() {
  // Never destroyed: threads may call to the end.
  static Runtime* const runtime = [] {
    std::atexit(FailOnErrors);
    return new Runtime();
  }();
  return *runtime;
}

void Report(const std::string& error) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard<std::mutex> lock(runtime.errors_mutex);
  if (runtime.errors.size() < kMostErrors) runtime.errors.push_back(error);
}

bool ReportsAreFull() {
  const std::lock_guard<std::mutex> lock(TheRuntime().errors_mutex);
  return TheRuntime().errors.size() >= kMostErrors;
}

Stream* Runtime::AddStream(int device) {
  auto stream = std::make_unique<Stream>();
  if (free_indices.empty()) {
    // Stream 0 is what was there before all.
    stream->index = static_cast<uint32_t>(last_numbers.empty() ? 1 : last_numbers.size());
    last_numbers.resize(stream->index + 1);
  } else {
    stream->index = free_indices.back();
    free_indices.pop_back();
  }
  stream->device = device;
  stream->clock = host_clock;
  streams.push_back(std::move(stream));
  return streams.back().get();
}

void Runtime::CloseStream(Stream* stream) {
  stream->is_open = false;
  if (!stream->queue.empty() || stream->is_busy) return;
  free_indices.push_back(stream->index);
  streams.erase(std::find_if(streams.begin(), streams.end(),
                             [stream](const auto& other) { return other.get() == stream; }));
}

Operation* Runtime::Enqueue(Lock& lock, Stream* stream, OperationName name,
                            std::function<void()> run) {
  if (stream->queue.size() >= kMostWaiting) {
    ServeUntil(lock, [stream] { return stream->queue.size() < kMostWaiting; });
  }
  auto operation = std::make_shared<Operation>();
  stream->clock.Join(host_clock);
  // A stream that takes the index of one that is gone goes on with its numbers.
  while (stream->clock[stream->index] < last_numbers[stream->index]) {
    stream->clock.Advance(stream->index);
  }
  operation->name = std::move(name);
  operation->stream = stream->index;
  operation->number = last_numbers[stream->index] = stream->clock.Advance(stream->index);
  operation->device = stream->device;
  operation->clock = stream->clock;
  operation->operands = stream->operands;
  operation->run = std::move(run);
  stream->queue.push_back(operation);
  changed.notify_all();
  return operation.get();
}

std::shared_ptr<Mark> Runtime::EnqueueRecord(Lock& lock, Stream* stream) {
  auto mark = std::make_shared<Mark>();
  Enqueue(lock, stream, {"event record", nullptr, ""}, [mark, stream] {
    mark->clock.Join(stream->done);
    mark->reached = true;
    mark->time = std::chrono::steady_clock::now();
  });
  mark->clock = stream->clock;
  return mark;
}

void Runtime::EnqueueWait(Lock& lock, Stream* stream, std::shared_ptr<Mark> mark) {
  stream->clock.Join(mark->clock);
  if (mark->reached) return;
  Operation* const wait = Enqueue(lock, stream, {"event wait", nullptr, ""},
                                  [mark, stream] { stream->done.Join(mark->clock); });
  wait->ready = [mark = std::move(mark)] { return mark->reached; };
}

Stream* Runtime::SynchronousStream(int device) {
  Stream*& stream = synchronous_streams_[device];
  if (stream == nullptr) stream = AddStream(device);
  return stream;
}

void Runtime::Execute(Stream* stream) {
  const std::shared_ptr<Operation> operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  operation->clock.Join(stream->done);
  if (operation->calls_host) {
    // On a thread of its own, as on a device: it may wait for what the thread that serves the
    // streams at the moment has yet to do.
    stream->is_busy = true;
    std::thread([this, operation, stream] {
      operation->run();
      const Lock relock(mutex);
      stream->is_busy = false;
      EndExecution(*operation, stream);
    }).detach();
    return;
  }
  BeginOperation(*operation);
  operation->run();
  EndOperation();
  EndExecution(*operation, stream);
}

void Runtime::EndExecution(const Operation& operation, Stream* stream) {
  for (const auto& point : operation.meets) stream->done.Join(*point);
  if (!operation.meets.empty()) std::erase(meetings, std::pair(operation.stream, operation.number));
  if (!stream->is_open) CloseStream(stream);
  changed.notify_all();
}

bool Runtime::RunOne() {
  std::vector<Stream*> ready;
  for (const auto& stream : streams) {
    if (stream->queue.empty() || stream->is_busy) continue;
    Operation& head = *stream->queue.front();
    for (const auto& point : head.meets) {
      point->Join(head.clock);
      point->Join(stream->done);
    }
    if (head.ready != nullptr && !head.ready()) continue;
    if (head.begin != nullptr) std::exchange(head.begin, nullptr)();
    ready.push_back(stream.get());
  }
  if (ready.empty()) return false;
  Execute(ready[random.Below(ready.size())]);
  return true;
}

// After an error that ends all, nothing that is queued runs, and no host function is called.
void Runtime::ServeUntil(Lock& lock, const std::function<bool()>& done) {
  while (sticky == cudaSuccess && !done()) {
    if (!RunOne()) WaitForOthers(lock);
  }
}

// A host function runs, or a library's call waits for work that another thread is to give.
void Runtime::WaitForOthers(Lock& lock) {
  if (changed.wait_for(lock, std::chrono::seconds(kStuckSeconds)) == std::cv_status::no_timeout) {
    return;
  }
  std::fprintf(stderr, "CUDA emulation: nothing has happened for %d s; streams wait at\n",
               kStuckSeconds);
  for (const auto& stream : streams) {
    if (stream->queue.empty()) continue;
    const OperationName& name = stream->queue.front()->name;
    std::fprintf(stderr, "  stream %u of device %d: %s %s\n", stream->index, stream->device,
                 name.kind, name.detail.c_str());
  }
  std::abort();
}

void Runtime::Drain(Lock& lock, Stream* stream) {
  // Of what is there now: other threads may go on.
  const uint32_t last = last_numbers[stream->index];
  const Clock clock = stream->clock;
  ServeUntil(lock, [&] {
    return !stream->is_busy && (stream->queue.empty() || stream->queue.front()->number > last);
  });
  HostSees(clock);
  HostSees(stream->done);
}

void Runtime::DrainDevice(Lock& lock, int device) {
  Clock clock;
  std::vector<std::pair<uint32_t, uint32_t>> last;  // index, number
  for (const auto& stream : streams) {
    if (stream->device != device) continue;
    clock.Join(stream->clock);
    last.push_back({stream->index, last_numbers[stream->index]});
  }
  ServeUntil(lock, [&] {
    return std::none_of(streams.begin(), streams.end(), [&](const auto& stream) {
      if (stream->queue.empty() && !stream->is_busy) return false;
      const auto found = std::find_if(last.begin(), last.end(), [&](const auto& entry) {
        return entry.first == stream->index;
      });
      if (found == last.end()) return false;
      return stream->is_busy || stream->queue.front()->number <= found->second;
    });
  });
  HostSees(clock);
  for (const auto& stream : streams) {
    if (stream->device == device) HostSees(stream->done);
  }
}

void Runtime::DrainAll(Lock& lock) {
  for (int device = 0; device < options.devices; ++device) DrainDevice(lock, device);
}

void Runtime::HostSees(const Clock& clock) {
  if (sticky != cudaSuccess) return;
  host_clock.Join(clock);
  std::erase_if(host_ranges, [this](const std::shared_ptr<HostRange>& range) {
    return host_clock[range->stream] >= range->number;
  });
}

bool Runtime::IsPinned(const void* begin, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  if (InMemory(address)) {
    return RegionOf(address) == kHostRegion && memory.Find(begin, bytes) != nullptr;
  }
  auto found = registered.upper_bound(address);
  if (found == registered.begin()) return false;
  --found;
  return address + bytes <= found->first + found->second;
}

bool Runtime::WaitsForMeeting(const Clock& clock) const {
  return std::any_of(meetings.begin(), meetings.end(),
                     [&](const auto& meeting) { return clock[meeting.first] >= meeting.second; });
}

void Runtime::Begin(const Options& new_options) {
  options = new_options;
  random = Xorshift(options.seed);
  memory.FreeAll();
  ForgetAccesses();
  statistics = Statistics();
  {
    const std::lock_guard<std::mutex> lock(errors_mutex);
    errors.clear();
  }
  sticky = cudaSuccess;
  captures.clear();
  streams.clear();
  synchronous_streams_.clear();
  free_indices.clear();
  last_numbers.clear();
  host_clock = Clock();
  for (const auto& range : host_ranges) range->conflicts.clear();  // they point at each other
  host_ranges.clear();
  meetings.clear();
  registered.clear();
  peers.clear();
  kernels.clear();
  stream_handles.clear();
  event_handles.clear();
}

void Reset(const Options& options) {
  Lock lock(TheRuntime().mutex);
  TheRuntime().Begin(options);
  ThisThread() = HostThread();
}

void Reset(uint64_t seed) {
  Options options;
  options.seed = seed;
  Reset(options);
}

std::vector<std::string> Errors() {
  const std::lock_guard<std::mutex> lock(TheRuntime().errors_mutex);
  return TheRuntime().errors;
}

std::vector<std::string> TakeErrors() {
  const std::lock_guard<std::mutex> lock(TheRuntime().errors_mutex);
  return std::exchange(TheRuntime().errors, {});
}

Statistics GetStatistics() {
  Lock lock(TheRuntime().mutex);
  return TheRuntime().statistics;
}

void ReportError(const std::string& error) { Report(error); }

}  // namespace sluice::cuda_emulation
