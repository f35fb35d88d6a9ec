#include "framework/comm/verbs_probe.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/comm/frames.h"
#include "framework/comm/verbs_device.h"
#include "framework/comm/verbs_queue.h"
#include "framework/wire/event_loop.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBytes = size_t{4} << 20;
constexpr auto kLongEnough = std::chrono::milliseconds(10);
constexpr int kReads = 3, kMostReads = 8;  // a batch that takes long enough, and in all

// What an end says of itself is a frame of a few regions at most.
constexpr size_t kMostSaidBytes = 4096;

absl::Status Say(Connection* connection, const Frame& frame, Deadline deadline) {
  std::string bytes;
  WriteFrame(frame, &bytes);
  return connection->Write({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
                           deadline);
}

absl::StatusOr<Frame> Hear(Connection* connection, Deadline deadline) {
  std::vector<std::byte> bytes(kFrameHeadBytes);
  RETURN_IF_ERROR(connection->Read(absl::MakeSpan(bytes), deadline));
  ASSIGN_OR_RETURN(const size_t size, ReadFrameHead(bytes));
  if (size > kMostSaidBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a measured link: expected at most ",
                                                   kMostSaidBytes, " bytes of an end, got ", size));
  }
  bytes.resize(size);
  RETURN_IF_ERROR(connection->Read(absl::MakeSpan(bytes), deadline));
  return ReadFrame(bytes);
}

// Both ends go on, or neither: each says whether it can.
absl::StatusOr<bool> BothCan(Connection* connection, bool can, Deadline deadline) {
  Frame frame;
  frame.type = can ? FrameType::kConnected : FrameType::kBeat;
  RETURN_IF_ERROR(Say(connection, frame, deadline));
  ASSIGN_OR_RETURN(const Frame other, Hear(connection, deadline));
  return can && other.type == FrameType::kConnected;
}

// A device with one queue pair and memory that is read and read into.
class Prober final : public VerbsQueue::Owner {
 public:
  Prober() : memory_(kBytes) {}
  ~Prober() override {
    if (device_ == nullptr) return;
    if (queue_ != nullptr) queue_->Close();
    loop_->PostAndWait([this] { device_->Close(); });
    queue_.reset();
  }

  absl::Status Open(const VerbsOptions& options) {
    ASSIGN_OR_RETURN(loop_, EventLoop::Start());
    ASSIGN_OR_RETURN(device_, VerbsDevice::Open(loop_.get(), 1, options));
    RETURN_IF_ERROR(device_->Register(absl::MakeSpan(memory_)));
    ASSIGN_OR_RETURN(queue_,
                     VerbsQueue::Make(device_.get(), "the other end of a measured link", this));
    absl::Status started;
    loop_->PostAndWait([&] { started = device_->Start(); });
    return started;
  }
  VerbsQueue& queue() { return *queue_; }

  // Unavailable: it failed, or has not ended by the deadline.
  absl::StatusOr<Clock::duration> Read(int count, Deadline deadline) {
    PullRequest request;
    request.element_bytes = 1;
    request.bytes = static_cast<int64_t>(kBytes);
    request.pieces = {{0, {request.bytes}, {1}}};
    const auto begin = Clock::now();
    for (int n = 0; n < count; ++n) {
      ended_ = false;
      if (!queue_->Read(0, request, {0, 0, kBytes}, memory_.data())) {
        return absl::UnavailableError("it has no memory to be read");
      }
      std::unique_lock<std::mutex> lock(mutex_);
      if (!changed_.wait_until(lock, deadline, [this] { return ended_; })) {
        return absl::UnavailableError("a read has not ended in time");
      }
      RETURN_IF_ERROR(status_);
    }
    return Clock::now() - begin;
  }

  void OnReadEnded(int32_t, const absl::Status& status) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    status_ = status;
    changed_.notify_all();
  }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<VerbsDevice> device_;
  std::unique_ptr<VerbsQueue> queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // both guarded by mutex_
  absl::Status status_;
};

// The first read finds the way.
absl::StatusOr<double> BestRate(Prober* prober, Deadline deadline) {
  RETURN_IF_ERROR(prober->Read(1, deadline).status());
  double best = 0;
  int count = 1;
  for (int batches = 0; batches < kReads;) {
    ASSIGN_OR_RETURN(const Clock::duration time, prober->Read(count, deadline));
    if (time < kLongEnough && count < kMostReads) {
      count *= 2;
      continue;
    }
    const double seconds = std::max(1e-9, std::chrono::duration<double>(time).count());
    best = std::max(best, static_cast<double>(kBytes) * count / seconds);
    if (time >= 10 * kLongEnough) break;
    ++batches;
  }
  return best;
}

}  // namespace

absl::StatusOr<std::optional<double>> MeasureReads(Connection* connection,
                                                   const VerbsOptions& options, bool asks,
                                                   Deadline deadline) {
  Prober prober;
  const auto tell = [](const absl::Status& why) {
    SLUICE_LOG(WARNING) << "RDMA between ranks is not measured: " << why.message();
  };
  const absl::Status opened = prober.Open(options);
  if (!opened.ok()) tell(opened);
  ASSIGN_OR_RETURN(const bool have, BothCan(connection, opened.ok(), deadline));
  if (!have) return std::nullopt;
  RETURN_IF_ERROR(Say(connection, prober.queue().Introduction(), deadline));
  ASSIGN_OR_RETURN(const Frame other, Hear(connection, deadline));
  if (other.type != FrameType::kVerbs) {
    return absl::InvalidArgumentError("a measured link: expected an RDMA address of an end");
  }
  const bool connected = prober.queue().Connect(other.verbs, other.regions);
  ASSIGN_OR_RETURN(const bool reach, BothCan(connection, connected, deadline));
  if (!reach) return std::nullopt;
  absl::StatusOr<double> rate = 0.0;
  if (asks) rate = BestRate(&prober, deadline);
  if (!rate.ok()) tell(rate.status());
  // The one that is read stays until the other is through.
  ASSIGN_OR_RETURN(const bool measured, BothCan(connection, rate.ok(), deadline));
  if (!measured) return std::nullopt;
  return *rate;
}

}  // namespace sluice
