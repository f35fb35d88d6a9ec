#include "framework/comm/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
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

// No other card of any host has this name: a host's kernel has an id of its own, and its cards have
// numbers. In a container they are those of the host.
absl::StatusOr<std::string> NameOfCard(int card) {
  char place[32] = "";
  if (cudaDeviceGetPCIBusId(place, sizeof place, card) != cudaSuccess) {
    cudaGetLastError();
    return absl::InternalError(absl::StrCat("card ", card, ": CUDA does not say where it is"));
  }
  std::string host;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, host);
  return absl::StrCat(host.empty() ? "host" : host, "/", place);
}

}  // namespace

absl::Status NcclMember::Launch(absl::string_view name, int64_t count, DType dtype,
                                const std::function<ncclResult_t(ncclDataType_t)>& call) {
  const std::string what = absl::StrCat(name, " of ", count, " ", DTypeName(dtype));
  const absl::StatusOr<ncclDataType_t> type = TypeOf(dtype);
  if (!type.ok()) return AddContext(type.status(), what);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (handle_ == nullptr || all_->aborted()) {
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

absl::StatusOr<std::unique_ptr<NcclCommunicators>> NcclCommunicators::Make(
    std::vector<CommunicatorGroup> groups, std::function<void(const absl::Status&)> fail) {
  ASSIGN_OR_RETURN(const NcclFunctions* const library, FindNccl());
  std::unique_ptr<NcclCommunicators> made(new NcclCommunicators(*library, std::move(fail)));
  made->groups_ = std::move(groups);
  std::sort(made->groups_.begin(), made->groups_.end(),
            [](const auto& a, const auto& b) { return a.devices < b.devices; });
  for (const CommunicatorGroup& group : made->groups_) {
    for (size_t i = 0; i < group.devices.size(); ++i) {
      if (group.cards[i] < 0) continue;
      NcclMember* const member = made->members_.emplace_back(std::make_unique<NcclMember>()).get();
      member->all_ = made.get();
      member->group_ = &group;
      member->device_ = group.devices[i];
      member->rank_ = static_cast<int>(i);
      member->card_ = group.cards[i];
    }
  }
  return absl::StatusOr<std::unique_ptr<NcclCommunicators>>(std::move(made));
}

absl::StatusOr<std::string> NcclCommunicators::Introduce() {
  Introductions mine;
  for (const CommunicatorGroup& group : groups_) {
    for (size_t i = 0; i < group.devices.size(); ++i) {
      if (group.cards[i] < 0) continue;
      ASSIGN_OR_RETURN(mine.cards[group.devices[i]], NameOfCard(group.cards[i]));
    }
    if (group.cards[0] < 0) continue;
    ncclUniqueId id;
    const ncclResult_t result = library_.get_unique_id(&id);
    if (result != ncclSuccess) {
      return absl::InternalError(absl::StrCat("making an id for ", NameOf(group), ": NCCL says ",
                                              library_.error_string(result)));
    }
    mine.ids[group.devices] = std::string(id.internal, sizeof id.internal);
  }
  return PrintIntroductions(mine);
}

absl::Status NcclCommunicators::Connect(absl::string_view introductions) {
  ASSIGN_OR_RETURN(const Introductions said, ParseIntroductions(introductions));
  for (const CommunicatorGroup& group : groups_) {
    RETURN_IF_ERROR(CheckCardEach(said, group.devices));
    const auto id = said.ids.find(group.devices);
    if (id != said.ids.end() && id->second.size() == sizeof(ncclUniqueId::internal)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("introductions of processes: expected an id of ",
                     sizeof(ncclUniqueId::internal), " bytes for ", NameOf(group), ", got ",
                     id == said.ids.end() ? "none" : absl::StrCat(id->second.size(), " bytes")));
  }
  const KeepCard keep;
  for (const CommunicatorGroup& group : groups_) {
    std::vector<NcclMember*> members;
    for (const auto& member : members_) {
      if (member->group_ == &group) members.push_back(member.get());
    }
    ncclUniqueId id;
    std::memcpy(id.internal, said.ids.at(group.devices).data(), sizeof id.internal);
    const absl::Status begun = Begin(id, members);
    if (begun.ok()) continue;
    Abort();
    return begun;
  }
  return StartThread([this] { Watch(); }, &watch_);
}

absl::Status NcclCommunicators::Begin(const ncclUniqueId& id,
                                      absl::Span<NcclMember* const> members) {
  ncclResult_t result = BeginAll(id, members);
  if (result == ncclSuccess) result = WaitUntilBegun(members);
  if (result == ncclSuccess) return absl::OkStatus();
  const std::string what = absl::StrCat("making a communicator of ", NameOf(*members[0]->group_));
  if (aborted()) return absl::AbortedError(absl::StrCat(what, ": the job has ended meanwhile"));
  if (result == ncclInProgress) {
    return absl::DeadlineExceededError(
        absl::StrCat(what, ": not all of them had come after ", kConnectLimit.count(), " s"));
  }
  return StatusOf(*members[0], what, result);
}

// One thread begins all members of this process, which takes a group of calls. Each communicator
// has one of its own, so that an error is of one of them. Nobody aborts a member before the group
// has ended: until then the library has only noted what is to be done.
ncclResult_t NcclCommunicators::BeginAll(const ncclUniqueId& id,
                                         absl::Span<NcclMember* const> members) {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (NcclMember* const member : members) locks.emplace_back(member->mutex_);
  if (aborted()) return ncclInProgress;
  ncclResult_t result = library_.group_start();
  if (result != ncclSuccess) return result;
  for (NcclMember* const member : members) {
    cudaSetDevice(member->card_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t one =
        library_.init_rank(&member->handle_, static_cast<int>(member->group_->devices.size()), id,
                           member->rank_, &config);
    if (result == ncclSuccess && one != ncclInProgress) result = one;
  }
  const ncclResult_t ended = library_.group_end();
  return result == ncclSuccess && ended != ncclInProgress ? ended : result;
}

// InProgress: aborted, or the time is over.
ncclResult_t NcclCommunicators::WaitUntilBegun(absl::Span<NcclMember* const> members) {
  const auto limit = Clock::now() + kConnectLimit;
  for (NcclMember* const member : members) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      {
        const std::lock_guard<std::mutex> lock(member->mutex_);
        if (member->handle_ == nullptr || aborted()) return ncclInProgress;
        const ncclResult_t asked = library_.get_async_error(member->handle_, &state);
        if (asked != ncclSuccess) return asked;
      }
      if (state != ncclInProgress) break;
      if (Clock::now() > limit) return ncclInProgress;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (state != ncclSuccess) return state;
  }
  return ncclSuccess;
}

ncclResult_t NcclCommunicators::Settle(NcclMember* member, ncclResult_t result) {
  while (result == ncclInProgress && !aborted()) {
    std::this_thread::yield();
    const ncclResult_t asked = library_.get_async_error(member->handle_, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

absl::Status NcclCommunicators::StatusOf(const NcclMember& member, absl::string_view what,
                                         ncclResult_t result) {
  const char* const more = library_.last_error(member.handle_);
  // Of several processes it may be a peer's failure that is seen here, which it tells itself.
  const std::vector<int32_t>& cards = member.group_->cards;
  const bool alone = std::find(cards.begin(), cards.end(), -1) == cards.end();
  return absl::Status(
      alone ? absl::StatusCode::kInternal : absl::StatusCode::kAborted,
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
    if (aborted()) continue;
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
    if (status.ok() || aborted()) continue;
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
