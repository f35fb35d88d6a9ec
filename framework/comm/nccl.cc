#include "framework/comm/nccl.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// How long cards have to find each other, and to part.
constexpr std::chrono::seconds kConnectLimit(60);
constexpr std::chrono::seconds kPartLimit(3);
// What goes wrong after a call is seen this late, of the five seconds that a step has to end.
constexpr std::chrono::milliseconds kWatchPeriod(200);

// The calling thread has the card that it had when this goes: whoever runs on it takes it for
// granted.
class KeepCard {
 public:
  KeepCard() { known_ = cudaGetDevice(&card_) == cudaSuccess; }
  ~KeepCard() {
    if (known_) cudaSetDevice(card_);
  }
  KeepCard(const KeepCard&) = delete;
  KeepCard& operator=(const KeepCard&) = delete;

 private:
  int card_ = 0;
  bool known_ = false;
};

std::string NameOf(const CommunicatorGroup& group) {
  return absl::StrCat("devices ", absl::StrJoin(group.devices, ", "));
}

absl::StatusOr<ncclDataType_t> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI32:
      return ncclInt32;
    default:
      return absl::UnimplementedError(
          absl::StrCat("expected f32, bf16 or i32, got ", DTypeName(dtype)));
  }
}

absl::Status CheckCards(const CommunicatorGroup& group) {
  for (size_t i = 0; i < group.cards.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (group.cards[i] != group.cards[j]) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("collectives of ", NameOf(group), ": expected a card for each, got card ",
                       group.cards[i], " for devices ", group.devices[j], " and ", group.devices[i],
                       "; --reproducible makes copies of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NcclMember::Launch(absl::string_view name, int64_t count, DType dtype,
                                const std::function<ncclResult_t(ncclDataType_t)>& call) {
  const std::string what = absl::StrCat(name, " of ", count, " ", DTypeName(dtype));
  const absl::StatusOr<ncclDataType_t> type = TypeOf(dtype);
  if (!type.ok()) return AddContext(type.status(), what);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (handle_ == nullptr || all_->aborted_.load(std::memory_order_acquire)) {
    return absl::AbortedError(
        absl::StrCat(what, ", ", NameOf(*group_), ": the communicator has been aborted"));
  }
  const ncclResult_t result = all_->Settle(this, call(*type));
  return result == ncclSuccess ? absl::OkStatus() : all_->StatusOf(*this, what, result);
}

absl::Status NcclMember::AllReduceSum(const void* send, void* receive, int64_t count, DType dtype,
                                      cudaStream_t stream) {
  return Launch("all_reduce", count, dtype, [&](ncclDataType_t type) {
    return all_->library_.all_reduce(send, receive, static_cast<size_t>(count), type, ncclSum,
                                     handle_, stream);
  });
}

absl::Status NcclMember::ReduceScatterSum(const void* send, void* receive, int64_t count,
                                          DType dtype, cudaStream_t stream) {
  return Launch("reduce_scatter", count, dtype, [&](ncclDataType_t type) {
    return all_->library_.reduce_scatter(send, receive, static_cast<size_t>(count), type, ncclSum,
                                         handle_, stream);
  });
}

absl::Status NcclMember::AllGather(const void* send, void* receive, int64_t count, DType dtype,
                                   cudaStream_t stream) {
  return Launch("all_gather", count, dtype, [&](ncclDataType_t type) {
    return all_->library_.all_gather(send, receive, static_cast<size_t>(count), type, handle_,
                                     stream);
  });
}

absl::StatusOr<std::unique_ptr<NcclCommunicators>> NcclCommunicators::Connect(
    std::vector<CommunicatorGroup> groups, std::function<void(const absl::Status&)> fail) {
  for (const CommunicatorGroup& group : groups) RETURN_IF_ERROR(CheckCards(group));
  ASSIGN_OR_RETURN(const NcclFunctions* const library, FindNccl());
  std::unique_ptr<NcclCommunicators> made(new NcclCommunicators(*library, std::move(fail)));
  made->groups_ = std::move(groups);
  const KeepCard keep;
  for (const CommunicatorGroup& group : made->groups_) {
    std::vector<NcclMember*> members;
    for (size_t i = 0; i < group.devices.size(); ++i) {
      NcclMember* const member = made->members_.emplace_back(std::make_unique<NcclMember>()).get();
      member->all_ = made.get();
      member->group_ = &group;
      member->device_ = group.devices[i];
      member->card_ = group.cards[i];
      members.push_back(member);
    }
    const absl::Status begun = made->Begin(group, members);
    if (begun.ok()) continue;
    made->Abort();
    return begun;
  }
  RETURN_IF_ERROR(StartThread([all = made.get()] { all->Watch(); }, &made->watch_));
  return absl::StatusOr<std::unique_ptr<NcclCommunicators>>(std::move(made));
}

// One thread begins all members, which takes a group. Each communicator has a group of its own, so
// that an error is of one of them.
absl::Status NcclCommunicators::Begin(const CommunicatorGroup& group,
                                      absl::Span<NcclMember* const> members) {
  ncclUniqueId id;
  ncclResult_t result = library_.get_unique_id(&id);
  if (result != ncclSuccess) return StatusOf(*members[0], "making a communicator", result);
  RETURN_IF_ERROR(AddContext(library_.group_start() == ncclSuccess
                                 ? absl::OkStatus()
                                 : absl::InternalError("ncclGroupStart failed"),
                             NameOf(group)));
  for (size_t rank = 0; rank < members.size(); ++rank) {
    cudaSetDevice(members[rank]->card_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t one =
        library_.init_rank(&members[rank]->handle_, static_cast<int>(members.size()), id,
                           static_cast<int>(rank), &config);
    if (result == ncclSuccess && one != ncclInProgress) result = one;
  }
  const ncclResult_t ended = library_.group_end();
  if (result == ncclSuccess && ended != ncclInProgress) result = ended;
  const auto limit = Clock::now() + kConnectLimit;
  for (NcclMember* const member : members) {
    ncclResult_t state = ncclInProgress;
    while (result == ncclSuccess && state == ncclInProgress) {
      const ncclResult_t asked = library_.get_async_error(member->handle_, &state);
      if (asked != ncclSuccess) state = asked;
      if (state != ncclInProgress && state != ncclSuccess) result = state;
      if (state == ncclInProgress && Clock::now() > limit) result = ncclInProgress;
      if (state == ncclInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (result == ncclSuccess) return absl::OkStatus();
  return StatusOf(*members[0], "making a communicator", result);
}

ncclResult_t NcclCommunicators::Settle(NcclMember* member, ncclResult_t result) {
  while (result == ncclInProgress && !aborted_.load(std::memory_order_acquire)) {
    std::this_thread::yield();
    const ncclResult_t asked = library_.get_async_error(member->handle_, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

absl::Status NcclCommunicators::StatusOf(const NcclMember& member, absl::string_view what,
                                         ncclResult_t result) {
  const char* const more = library_.last_error(member.handle_);
  return absl::InternalError(
      absl::StrCat(what, ", ", NameOf(*member.group_), ", at device ", member.device_,
                   ": NCCL says ", library_.error_string(result),
                   more == nullptr || *more == '\0' ? "" : ": ", more == nullptr ? "" : more));
}

NcclMember* NcclCommunicators::Find(absl::Span<const int32_t> devices, int32_t device) {
  for (const auto& member : members_) {
    if (member->device_ != device || absl::MakeConstSpan(member->group_->devices) != devices) {
      continue;
    }
    return member.get();
  }
  return nullptr;
}

// A launch that is in progress sees `aborted_` and lets go of its lock.
void NcclCommunicators::Abort() {
  aborted_.store(true, std::memory_order_release);
  const KeepCard keep;
  for (const auto& member : members_) {
    const std::lock_guard<std::mutex> lock(member->mutex_);
    if (member->handle_ != nullptr) library_.abort(std::exchange(member->handle_, nullptr));
  }
}

// What goes wrong when no call is made: of a call that was accepted, or by a member that has gone.
void NcclCommunicators::Watch() {
  std::unique_lock<std::mutex> lock(watch_mutex_);
  while (!watch_ends_.wait_for(lock, kWatchPeriod, [this] { return ending_; })) {
    if (aborted_.load(std::memory_order_acquire)) continue;
    absl::Status status;
    for (const auto& member : members_) {
      const std::unique_lock<std::mutex> held(member->mutex_, std::try_to_lock);
      if (!held.owns_lock() || member->handle_ == nullptr) continue;  // who launches asks itself
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = library_.get_async_error(member->handle_, &state);
      if (asked != ncclSuccess) state = asked;
      if (state == ncclSuccess || state == ncclInProgress || !status.ok()) continue;
      status = StatusOf(*member, "a collective that was launched before", state);
    }
    if (status.ok() || aborted_.load(std::memory_order_acquire)) continue;
    lock.unlock();
    fail_(status);
    lock.lock();
  }
}

// All are told to end before one is waited for: they end together.
void NcclCommunicators::End() {
  const KeepCard keep;
  for (const auto& member : members_) {
    if (member->handle_ != nullptr) library_.finalize(member->handle_);
  }
  const auto limit = Clock::now() + kPartLimit;
  bool parted = true;
  for (const auto& member : members_) {
    ncclResult_t state = ncclInProgress;
    while (member->handle_ != nullptr && state == ncclInProgress && Clock::now() < limit) {
      if (library_.get_async_error(member->handle_, &state) != ncclSuccess) break;
      if (state == ncclInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    parted &= member->handle_ == nullptr || state == ncclSuccess;
  }
  for (const auto& member : members_) {
    if (member->handle_ == nullptr) continue;
    (parted ? library_.destroy : library_.abort)(std::exchange(member->handle_, nullptr));
  }
}

NcclCommunicators::~NcclCommunicators() {
  {
    const std::lock_guard<std::mutex> lock(watch_mutex_);
    ending_ = true;
  }
  watch_ends_.notify_all();
  if (watch_.joinable()) watch_.join();
  End();
}

}  // namespace sluice
