#include "framework/device/async.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"

namespace sluice {
namespace {

// A fence names a stream, from 1 on, and how much of what it was given has to be done.
constexpr int kCountBits = 40;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;

// One in so many times that it could be made, a planted mistake is made.
constexpr uint64_t kFaultEvery = 8;
// One in so many times that something is done, a stream gets another priority.
constexpr uint64_t kPriorityChangeEvery = 12;

}  // namespace

uint64_t AsyncEngine::Below(uint64_t n) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return (random_ >> 11) % n;
}

bool AsyncEngine::IsDone(Fence fence) const {
  return fence == 0 || streams_[(fence >> kCountBits) - 1]->done_ >= (fence & kCountMask);
}

bool AsyncEngine::DoOne() {
  AsyncStream* best = nullptr;
  for (AsyncStream* stream : streams_) {
    if (stream->CanDo() && (best == nullptr || stream->priority_ > best->priority_)) best = stream;
  }
  if (best == nullptr) return false;
  best->Do();
  if (Below(kPriorityChangeEvery) == 0) {
    streams_[Below(streams_.size())]->priority_ = Below(1 << 20);
  }
  return true;
}

// An address of the host's is what it is.
std::byte* AsyncEngine::Translate(std::byte* address) const {
  for (const Space& space : spaces_) {
    if (address >= space.mirror && address < space.mirror + space.size) {
      return space.bytes + (address - space.mirror);
    }
  }
  return address;
}

AsyncStream::AsyncStream(AsyncEngine* engine, int space)
    : Stream(nullptr),
      engine_(*engine),
      space_(space),
      index_(static_cast<int>(engine->streams_.size())) {
  engine->streams_.push_back(this);
  priority_ = engine->Below(1 << 20);
}

Fence AsyncStream::Record() {
  std::lock_guard<std::mutex> lock(engine_.mutex_);
  if (done_ == given_) return 0;
  return (uint64_t{static_cast<uint32_t>(index_)} + 1) << kCountBits | given_;
}

void AsyncStream::Wait(Fence fence) {
  std::lock_guard<std::mutex> lock(engine_.mutex_);
  // Its own work is in order anyway.
  if (engine_.IsDone(fence) || static_cast<int>(fence >> kCountBits) - 1 == index_) return;
  if (engine_.fault_ == AsyncFault::kForgottenWait && engine_.Below(kFaultEvery) == 0) return;
  Push().fence = fence;
}

// Who asks has nothing better to do: now is the time to do something.
bool AsyncDevice::Done(Fence fence) const {
  std::lock_guard<std::mutex> lock(engine_->mutex_);
  if (engine_->IsDone(fence)) return true;
  if (engine_->fault_ == AsyncFault::kEarlyDone && engine_->Below(kFaultEvery) == 0) return true;
  SLUICE_CHECK(engine_->DoOne()) << "a fence that no stream can come to";
  return engine_->IsDone(fence);
}

absl::Status AsyncDevice::status() const {
  std::lock_guard<std::mutex> lock(engine_->mutex_);
  return engine_->status_;
}

absl::Status AsyncStream::LaunchBytes(Function fn, void* state, const void* context,
                                      size_t context_bytes, absl::Span<std::byte* const> operands,
                                      bool transfer) {
  std::lock_guard<std::mutex> lock(engine_.mutex_);
  const AsyncEngine::Space& own = engine_.spaces_[space_];
  for (size_t i = 0; i < operands.size() && !transfer; ++i) {
    std::byte* const at = operands[i];
    if (at == nullptr || (at >= own.mirror && at <= own.mirror + own.size)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("operand ", i, " lies outside of the device's memory"));
  }
  if (operands.size() > most_operands_) {
    most_operands_ = operands.size();
    for (Work& work : queue_) work.operands.reserve(most_operands_);
  }
  Work& work = Push();
  work.fence = 0;
  work.fn = fn;
  work.state = state;
  std::memcpy(work.context, context, context_bytes);
  work.operands.assign(operands.begin(), operands.end());
  for (std::byte*& at : work.operands) at = engine_.Translate(at);
  return absl::OkStatus();
}

AsyncStream::Work& AsyncStream::Push() {
  while (given_ - done_ == kMostQueued) {
    SLUICE_CHECK(engine_.DoOne()) << "streams that wait for each other";
  }
  return queue_[given_++ % kMostQueued];
}

bool AsyncStream::CanDo() const {
  return done_ < given_ && engine_.IsDone(queue_[done_ % kMostQueued].fence);
}

void AsyncStream::Do() {
  Work& work = queue_[done_ % kMostQueued];
  if (work.fence == 0) {
    const absl::Status status = work.fn(work.state, work.context, work.operands.data());
    if (engine_.status_.ok()) engine_.status_ = status;
  }
  ++done_;
}

AsyncDevice::AsyncDevice(std::shared_ptr<AsyncEngine> engine, Memory bytes, std::byte* mirror)
    : engine_(std::move(engine)), bytes_(std::move(bytes)), mirror_(mirror) {
  std::lock_guard<std::mutex> lock(engine_->mutex_);
  space_ = static_cast<int>(engine_->spaces_.size());
  engine_->spaces_.push_back({mirror_, bytes_.data(), bytes_.bytes()});
}

absl::StatusOr<std::unique_ptr<Device>> AsyncDevice::Open(const DeviceSpec& spec,
                                                          std::shared_ptr<AsyncEngine> engine) {
  absl::StatusOr<Memory> bytes = Memory::Allocate(spec.bytes);
  if (!bytes.ok()) return bytes.status();
  void* mirror = nullptr;
  if (spec.bytes > 0) {
    mirror = mmap(nullptr, static_cast<size_t>(spec.bytes), PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mirror == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot map a mirror of ", spec.bytes, " bytes: ", std::strerror(errno)));
    }
  }
  return std::unique_ptr<Device>(
      new AsyncDevice(std::move(engine), *std::move(bytes), static_cast<std::byte*>(mirror)));
}

AsyncDevice::~AsyncDevice() {
  if (mirror_ != nullptr) munmap(mirror_, static_cast<size_t>(bytes_.bytes()));
}

Stream* AsyncDevice::OpenStream(ThreadPool*) {
  std::lock_guard<std::mutex> lock(engine_->mutex_);
  streams_.push_back(std::make_unique<AsyncStream>(engine_.get(), space_));
  return streams_.back().get();
}

void AsyncDevice::CopyIn(int64_t offset, absl::Span<const std::byte> from) {
  std::lock_guard<std::mutex> lock(engine_->mutex_);
  std::copy(from.begin(), from.end(), bytes_.data() + offset);
}

void AsyncDevice::CopyOut(int64_t offset, absl::Span<std::byte> to) const {
  std::lock_guard<std::mutex> lock(engine_->mutex_);
  std::copy_n(bytes_.data() + offset, to.size(), to.begin());
}

}  // namespace sluice
