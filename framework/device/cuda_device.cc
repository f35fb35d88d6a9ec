#include "framework/device/cuda_device.h"

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda_step.h"

namespace sluice {
namespace {

// As the fences of all devices that run late (async.cc): a stream, from 1 on, and a count.
constexpr int kCountBits = 40;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;

// Each thread has a current card, and a stream may only be given work of its own.
absl::Status Use(int device) {
  thread_local int current = -1;
  if (current == device) return absl::OkStatus();
  RETURN_IF_ERROR(FromCuda(cudaSetDevice(device), "cudaSetDevice"));
  current = device;
  return absl::OkStatus();
}

// As kernels of a CPU say it. Of a sample the limit itself may be reached.
std::string ToText(const DeviceErrorCell& cell) {
  const auto expected = [&](const char* what) {
    return absl::StrCat("expected ", what, " in [0, ");
  };
  const auto of_row = [&](const char* what) {
    return absl::StrCat(expected(what), cell.limit, "), got ", cell.value, " in row ", cell.row);
  };
  const auto of_sample = [&](const char* what) {
    return absl::StrCat(expected(what), cell.limit - 1, "], got ", cell.value, " in sample ",
                        cell.row);
  };
  switch (cell.kind) {
    case DeviceErrorKind::kId:
      return of_row("ids");
    case DeviceErrorKind::kLabel:
      return of_row("labels");
    case DeviceErrorKind::kLength:
      return of_sample("lengths");
    case DeviceErrorKind::kPosition:
      return of_sample("a position");
    case DeviceErrorKind::kNan:
      return cell.limit == 1 ? "a result is NaN or infinite"
                             : absl::StrCat("result ", cell.value + 1, " of ", cell.limit,
                                            " is NaN or infinite");
  }
  return "";
}

}  // namespace

absl::Status FromCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string what =
      absl::StrCat(call, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(what);
  return absl::InternalError(what);
}

bool CudaEngine::Done(Fence fence) const {
  if (fence == 0 || failed()) return true;
  return streams_[(fence >> kCountBits) - 1]->IsDone(fence & kCountMask);
}

void CudaEngine::Fail(const absl::Status& status) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(!status_.ok(), std::memory_order_release);
}

absl::Status CudaEngine::status() const {
  CheckCells();
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

// Whoever asks has seen the fences of all that could have filled a cell.
void CudaEngine::CheckCells() const {
  for (const DeviceErrorCell* cell : cells_) {
    if (cell->taken == 0) continue;
    std::string text;
    // No kernel of an op finds a NaN.
    const bool of_op = cell->kind != DeviceErrorKind::kNan;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const Place& place = places_[cell->place];
      text = absl::StrCat(place.before_step, ", step ", cell->step, ", ", place.after_step, ": ",
                          of_op ? absl::StrCat(place.op, ": ") : "", ToText(*cell));
    }
    Fail(absl::OutOfRangeError(text));
  }
}

std::string CudaEngine::UnderWay(int card) const {
  constexpr size_t kNamed = 4;  // of a stream: the first that fails is the first that is not done
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const CudaStream* stream : streams_) {
    if (stream->device() != card) continue;
    const std::vector<int32_t> places = stream->PlacesUnderWay();
    for (size_t i = 0; i < std::min(places.size(), kNamed); ++i) {
      absl::StrAppend(&text, text.empty() ? "" : "; ", places_[places[i]].after_step);
    }
    if (places.size() > kNamed) absl::StrAppend(&text, " and ", places.size() - kNamed, " more");
  }
  return text;
}

CudaStream::CudaStream(CudaEngine* engine, int device, DeviceErrorCell* cell, cudaStream_t handle,
                       int index)
    : Stream(nullptr),
      engine_(*engine),
      device_(device),
      cell_(cell),
      handle_(handle),
      index_(index),
      events_(kEvents) {}

CudaStream::~CudaStream() {
  for (const std::function<void()>& fn : at_end_) fn();
  for (const cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
  timer_.reset();
  cudaFree(step_);
  cudaStreamDestroy(handle_);
}

absl::Status CudaStream::Open() {
  RETURN_IF_ERROR(Use(device_));
  void* made = nullptr;
  RETURN_IF_ERROR(FromCuda(cudaMalloc(&made, sizeof(int64_t)), "cudaMalloc of a stream's step"));
  step_ = static_cast<int64_t*>(made);
  return absl::OkStatus();
}

absl::Status CudaStream::MakeCurrent() const { return Use(device_); }

int32_t CudaStream::AddPlace(const std::string& op, const std::string& before_step,
                             const std::string& after_step) {
  std::lock_guard<std::mutex> lock(engine_.mutex_);
  engine_.places_.push_back({op, before_step, after_step});
  return static_cast<int32_t>(engine_.places_.size()) - 1;
}

void CudaStream::Begin(int32_t place, std::optional<int64_t> step,
                       absl::Span<const CudaOperand> operands) {
  const absl::Status used = Use(device_);
  if (!used.ok()) engine_.Fail(used);
  place_ = place;
  if (capturing_ != nullptr) {
    capturing_->push_back(place);
  } else {
    given_.Give(place);
  }
  if (step.has_value()) SetStep(*step);
  has_new_ = true;
  MarkTime();
  WatchCudaOperands(handle_, operands);
}

void CudaStream::End() { MarkTime(); }

void CudaStream::MarkTime() {
  if (timer_ == nullptr || capturing_ != nullptr) return;
  const absl::Status marked = timer_->Mark();
  if (!marked.ok()) engine_.Fail(marked);
}

void CudaStream::StartTimes() {
  timer_ = std::make_unique<CudaTimer>(handle_);
  absl::Status started = Use(device_);
  if (started.ok()) started = timer_->Start();
  if (!started.ok()) engine_.Fail(started);
}

std::vector<StreamTime> CudaStream::TakeTimes() {
  std::vector<StreamTime> times;
  if (timer_ == nullptr || !Use(device_).ok()) return times;
  const absl::StatusOr<std::vector<int64_t>> marks = timer_->Take();
  if (!marks.ok()) return times;  // what has failed is told where the step ends
  for (size_t i = 0; i + 1 < marks->size(); i += 2) times.push_back({(*marks)[i], (*marks)[i + 1]});
  return times;
}

void CudaStream::SetStep(int64_t step) {
  if (current_step_ == step) return;
  current_step_ = step;
  const CudaOperand operand = {step_, sizeof(int64_t), true};
  WatchCudaOperands(handle_, {&operand, 1});
  const cudaError_t error = WriteCudaStep(handle_, step_, step);
  if (error != cudaSuccess) engine_.Fail(FromCuda(error, "writing a step's number"));
}

absl::StatusOr<int32_t> CudaStream::Capture(absl::FunctionRef<absl::Status()> give) {
  RETURN_IF_ERROR(Use(device_));
  // Other threads may allocate meanwhile: they prepare kernels, or start another runtime.
  RETURN_IF_ERROR(FromCuda(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal),
                           "cudaStreamBeginCapture"));
  std::vector<int32_t> places;
  capturing_ = &places;
  const absl::Status given = give();
  capturing_ = nullptr;
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(handle_, &graph);
  cudaGraphExec_t made = nullptr;
  cudaError_t instantiated = cudaSuccess;
  if (given.ok() && ended == cudaSuccess) instantiated = cudaGraphInstantiate(&made, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);  // there is one, too, of what could not be given
  RETURN_IF_ERROR(given);
  RETURN_IF_ERROR(FromCuda(ended, "cudaStreamEndCapture"));
  RETURN_IF_ERROR(FromCuda(instantiated, "cudaGraphInstantiate"));
  graphs_.push_back(made);
  {
    std::lock_guard<std::mutex> lock(engine_.mutex_);
    captured_.push_back(std::move(places));
  }
  // What a first launch would else do besides.
  RETURN_IF_ERROR(FromCuda(cudaGraphUpload(made, handle_), "cudaGraphUpload"));
  return static_cast<int32_t>(graphs_.size()) - 1;
}

void CudaStream::Replay(int32_t capture, int64_t step) {
  const absl::Status used = Use(device_);
  if (!used.ok()) engine_.Fail(used);
  SetStep(step);
  has_new_ = true;
  given_.Give(-1 - capture);
  const cudaError_t error = cudaGraphLaunch(graphs_[capture], handle_);
  if (error != cudaSuccess) engine_.Fail(WithWorkUnderWay(FromCuda(error, "cudaGraphLaunch")));
}

Fence CudaStream::Record() {
  if (has_new_) {
    has_new_ = false;
    ++recorded_;
    given_at_[recorded_ % given_at_.size()].store(given_.given(), std::memory_order_relaxed);
    cudaEvent_t& event = events_[recorded_ % kEvents];
    cudaError_t error = cudaSuccess;
    if (event == nullptr) {
      if (const absl::Status used = Use(device_); !used.ok()) engine_.Fail(used);
      error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    } else if (!IsDone(recorded_ - kEvents)) {
      error = cudaEventSynchronize(event);
      done_.store(std::max(done_.load(), recorded_ - kEvents));
    }
    if (error == cudaSuccess) error = cudaEventRecord(event, handle_);
    if (error != cudaSuccess) engine_.Fail(FromCuda(error, "recording an event"));
  }
  if (recorded_ == done_.load(std::memory_order_relaxed)) return 0;
  return (static_cast<uint64_t>(index_) + 1) << kCountBits | recorded_;
}

void CudaStream::Wait(Fence fence) {
  if (fence == 0 || engine_.failed()) return;
  const CudaStream& other = *engine_.streams_[(fence >> kCountBits) - 1];
  const uint64_t count = fence & kCountMask;
  // Its own work is in order anyway.
  if (&other == this || other.done_.load(std::memory_order_acquire) >= count) return;
  // A later record of the same event is of later work that was given before this: the wait is then
  // longer than it has to be, and can close no circle.
  const cudaError_t error = cudaStreamWaitEvent(handle_, other.events_[count % kEvents], 0);
  if (error != cudaSuccess) engine_.Fail(FromCuda(error, "cudaStreamWaitEvent"));
}

bool CudaStream::IsDone(uint64_t count) const {
  uint64_t done = done_.load(std::memory_order_acquire);
  if (done >= count) return true;
  const cudaError_t error = cudaEventQuery(events_[count % kEvents]);
  if (error == cudaErrorNotReady) return false;
  if (error != cudaSuccess) {
    engine_.Fail(WithWorkUnderWay(FromCuda(error, "work that was given to a stream before")));
    return true;
  }
  while (done < count && !done_.compare_exchange_weak(done, count)) {
  }
  return true;
}

std::vector<int32_t> CudaStream::PlacesUnderWay() const {
  const uint64_t done = done_.load(std::memory_order_acquire);
  const uint64_t from =
      done == 0 ? 0 : given_at_[done % given_at_.size()].load(std::memory_order_relaxed);
  std::vector<int32_t> places;
  for (const int32_t number : given_.From(from)) {
    if (number >= 0) {
      places.push_back(number);
    } else {
      const std::vector<int32_t>& captured = captured_[-1 - number];
      places.insert(places.end(), captured.begin(), captured.end());
    }
  }
  return places;
}

absl::Status CudaStream::WithWorkUnderWay(const absl::Status& status) const {
  // A stream that captures may not be asked, and runs nothing.
  if (capturing_ != nullptr) return status;
  const cudaError_t error = cudaStreamQuery(handle_);
  if (error == cudaSuccess || error == cudaErrorNotReady) return status;
  const std::string under_way = engine_.UnderWay(device_);
  if (under_way.empty()) return status;
  return {status.code(), absl::StrCat(status.message(), "; under way on its card: ", under_way)};
}

// A card as a device of a plan. Several devices may share a card, as tests on one card do.
class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaEngine> engine, int card)
      : engine_(std::move(engine)), card_(card) {}
  ~CudaDevice() override;

  absl::Status Open(const DeviceSpec& spec);

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::byte* memory() const override { return memory_; }
  Stream* OpenStream(ThreadPool* thread_pool) override;
  bool Done(Fence fence) const override { return engine_->Done(fence); }
  absl::Status status() const override { return engine_->status(); }
  void PinHostMemory(absl::Span<std::byte> bytes) override;
  void CopyIn(int64_t offset, absl::Span<const std::byte> from) override;
  void CopyOut(int64_t offset, absl::Span<std::byte> to) const override;

 private:
  absl::Status Allocate(int64_t bytes);
  absl::Status MakeCell();

  const std::shared_ptr<CudaEngine> engine_;
  const int card_;
  std::byte* memory_ = nullptr;
  DeviceErrorCell* cell_ = nullptr;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::vector<std::byte*> pinned_;
};

CudaDevice::~CudaDevice() {
  if (!Use(card_).ok()) return;
  cudaDeviceSynchronize();
  streams_.clear();
  for (std::byte* const bytes : pinned_) cudaHostUnregister(bytes);
  cudaFreeHost(cell_);
  cudaFree(memory_);
}

absl::Status CudaDevice::Open(const DeviceSpec& spec) {
  RETURN_IF_ERROR(Use(card_));
  RETURN_IF_ERROR(MakeCell());
  return Allocate(spec.bytes);
}

absl::Status CudaDevice::MakeCell() {
  void* cell = nullptr;
  RETURN_IF_ERROR(FromCuda(
      cudaHostAlloc(&cell, sizeof(DeviceErrorCell), cudaHostAllocMapped | cudaHostAllocPortable),
      "cudaHostAlloc"));
  cell_ = new (cell) DeviceErrorCell();
  engine_->cells_.push_back(cell_);
  return absl::OkStatus();
}

absl::Status CudaDevice::Allocate(int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(FromCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  void* made = nullptr;
  const cudaError_t error = cudaMalloc(&made, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the next call is not to find this one's
    return absl::ResourceExhaustedError(absl::StrCat("cannot have ", bytes, " bytes: card ", card_,
                                                     " has ", free, " of ", total, " free"));
  }
  RETURN_IF_ERROR(FromCuda(error, "cudaMalloc of the arena"));
  memory_ = static_cast<std::byte*>(made);
  // As the memory of a CPU: zeros, and touched before the first step.
  RETURN_IF_ERROR(FromCuda(cudaMemset(memory_, 0, static_cast<size_t>(bytes)), "cudaMemset"));
  return FromCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

Stream* CudaDevice::OpenStream(ThreadPool*) {
  cudaStream_t handle = nullptr;
  absl::Status made = Use(card_);
  if (made.ok()) {
    made = FromCuda(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking),
                    "cudaStreamCreateWithFlags");
  }
  CudaStream* stream = nullptr;
  {
    std::lock_guard<std::mutex> lock(engine_->mutex_);
    streams_.push_back(std::make_unique<CudaStream>(engine_.get(), card_, cell_, handle,
                                                    static_cast<int>(engine_->streams_.size())));
    stream = streams_.back().get();
    engine_->streams_.push_back(stream);
  }
  if (made.ok()) made = stream->Open();
  if (!made.ok()) engine_->Fail(made);
  return stream;
}

void CudaDevice::PinHostMemory(absl::Span<std::byte> bytes) {
  if (bytes.empty()) return;
  absl::Status pinned = Use(card_);
  if (pinned.ok()) {
    pinned = FromCuda(cudaHostRegister(bytes.data(), bytes.size(), cudaHostRegisterPortable),
                      "cudaHostRegister");
  }
  if (!pinned.ok()) return engine_->Fail(pinned);
  pinned_.push_back(bytes.data());
}

void CudaDevice::CopyIn(int64_t offset, absl::Span<const std::byte> from) {
  if (from.empty()) return;
  absl::Status copied = Use(card_);
  if (copied.ok()) {
    copied =
        FromCuda(cudaMemcpy(memory_ + offset, from.data(), from.size(), cudaMemcpyHostToDevice),
                 "cudaMemcpy to a variable");
  }
  // Of pageable memory it returns when the bytes are staged, and our streams, which do not wait for
  // the default one, could read what was there before.
  if (copied.ok()) {
    copied = FromCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize after a variable");
  }
  if (!copied.ok()) engine_->Fail(copied);
}

void CudaDevice::CopyOut(int64_t offset, absl::Span<std::byte> to) const {
  if (to.empty()) return;
  const cudaError_t error =
      cudaMemcpy(to.data(), memory_ + offset, to.size(), cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) engine_->Fail(FromCuda(error, "cudaMemcpy of a variable"));
}

absl::StatusOr<int> CountCudaCards() {
  int cards = 0;
  const cudaError_t error = cudaGetDeviceCount(&cards);
  if (error == cudaSuccess && cards > 0) return cards;
  int driver = 0;  // the CUDA version that it is for; 0 if there is none
  cudaDriverGetVersion(&driver);
  return absl::UnavailableError(absl::StrCat(
      "no CUDA device: the driver says: ",
      error == cudaSuccess ? "there is none" : cudaGetErrorString(error),
      driver == 0 ? " (no driver is installed)"
                  : absl::StrCat(" (driver for CUDA ", driver / 1000, ".", driver % 1000 / 10, ")"),
      "; run with --devices=cpu"));
}

absl::StatusOr<std::vector<int64_t>> FreeCudaBytes() {
  ASSIGN_OR_RETURN(const int cards, CountCudaCards());
  std::vector<int64_t> bytes;
  for (int card = 0; card < cards; ++card) {
    RETURN_IF_ERROR(Use(card));
    size_t free = 0, total = 0;
    RETURN_IF_ERROR(FromCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    bytes.push_back(static_cast<int64_t>(free));
  }
  return bytes;
}

absl::StatusOr<std::vector<std::string>> CudaCardNames() {
  ASSIGN_OR_RETURN(const int cards, CountCudaCards());
  std::vector<std::string> names;
  for (int card = 0; card < cards; ++card) {
    cudaDeviceProp properties = {};
    RETURN_IF_ERROR(
        FromCuda(cudaGetDeviceProperties(&properties, card), "cudaGetDeviceProperties"));
    names.push_back(properties.name);
  }
  return names;
}

namespace {

// Copies between cards go straight from one memory to the other where each may touch the other's;
// else the driver takes them through the host's, at half the rate and less.
absl::Status EnablePeerAccess(const std::set<int>& cards) {
  for (const int card : cards) {
    for (const int peer : cards) {
      int can = 0;
      if (card == peer) continue;
      RETURN_IF_ERROR(
          FromCuda(cudaDeviceCanAccessPeer(&can, card, peer), "cudaDeviceCanAccessPeer"));
      if (can == 0) continue;
      RETURN_IF_ERROR(Use(card));
      const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
      // By another runtime of this process; or a card has as many peers as it can, and the rest go
      // through the host. The next call is not to find it.
      if (enabled == cudaErrorPeerAccessAlreadyEnabled || enabled == cudaErrorTooManyPeers) {
        cudaGetLastError();
        continue;
      }
      RETURN_IF_ERROR(FromCuda(enabled, "cudaDeviceEnablePeerAccess"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(
    absl::Span<const DeviceSpec> specs) {
  ASSIGN_OR_RETURN(const int cards, CountCudaCards());
  const auto engine = std::make_shared<CudaEngine>();
  std::vector<std::unique_ptr<Device>> devices;
  std::set<int> used;
  for (const DeviceSpec& spec : specs) {
    const int card = spec.card % cards;
    used.insert(card);
    auto device = std::make_unique<CudaDevice>(engine, card);
    const absl::Status opened = device->Open(spec);
    if (!opened.ok()) return AddContext(opened, absl::StrCat("device ", spec.name));
    devices.push_back(std::move(device));
  }
  RETURN_IF_ERROR(EnablePeerAccess(used));
  return absl::StatusOr<std::vector<std::unique_ptr<Device>>>(std::move(devices));
}

}  // namespace sluice
