// NCCL on CPU: its functions. What ranks do together stands in nccl_communicator.cc.
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "framework/testing/cuda_emulation/nccl_communicator.h"

namespace sluice::cuda_emulation {
namespace {

using Lock = std::unique_lock<std::mutex>;

// Ranks that have not come in this time never will.
constexpr std::chrono::seconds kPatience(20);

// Something that ranks begin together: a communicator, or a split of one. `done` under the lock.
struct Beginning {
  std::function<bool()> done;
  std::function<ncclResult_t()> finish;
};

// Of the calling thread.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Beginning> beginnings;
  std::vector<PendingNcclCall> calls;
};
thread_local Group group;

thread_local std::string last_error;

template <typename... Parts>
ncclResult_t Refuse(ncclResult_t result, const Parts&... why) {
  last_error = absl::StrCat(why...);
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

ncclResult_t WaitFor(const std::vector<Beginning>& beginnings) {
  Lock lock(GlobalNccl().mutex);
  ncclResult_t result = ncclSuccess;
  for (const Beginning& each : beginnings) {
    if (!GlobalNccl().changed.wait_for(lock, kPatience, each.done)) {
      ReportError("NCCL: not all ranks have come to begin a communicator");
      return Refuse(ncclSystemError, "not all ranks have come");
    }
    const ncclResult_t one = each.finish();
    if (result == ncclSuccess) result = one;
  }
  return result;
}

// Now, at the end of the group, or never where nobody waits.
ncclResult_t Begin(Beginning beginning, bool blocking) {
  if (group.depth > 0) {
    if (blocking) group.beginnings.push_back(std::move(beginning));
    return ncclSuccess;
  }
  return blocking ? WaitFor({beginning}) : ncclInProgress;
}

ncclComm_t NewMember(const std::shared_ptr<Clique>& clique, int rank, int device, bool blocking) {
  auto* const made = new ncclComm();
  made->clique = clique;
  made->rank = rank;
  made->device = device;
  made->blocking = blocking;
  clique->members[rank] = made;
  ++clique->come;
  GlobalNccl().live.insert(made);
  return made;
}

// When all have come. NCCL finds a card that two ranks have only sometimes, and may hang.
void Complete(Clique* clique) {
  std::set<int> devices;
  for (const ncclComm_t member : clique->members) devices.insert(member->device);
  clique->made =
      static_cast<int>(devices.size()) == clique->ranks() ? ncclSuccess : ncclInvalidUsage;
  if (clique->made != ncclSuccess) {
    ReportError(absl::StrCat("NCCL: communicator ", clique->number, ": two ranks have one device"));
  }
}

std::shared_ptr<Clique> NewClique(int ranks) {
  auto clique = std::make_shared<Clique>();
  clique->number = ++GlobalNccl().cliques;
  clique->members.resize(ranks);
  return clique;
}

bool IsBlocking(const ncclConfig_t* config) { return config == nullptr || config->blocking != 0; }
bool IsInitialized(const ncclConfig_t* config) {
  return config == nullptr || (config->size == sizeof *config && config->magic == 0xcafebeef);
}

ncclResult_t InitRank(ncclComm_t* communicator, int ranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config) {
  if (communicator == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return Refuse(ncclInvalidArgument, "rank ", rank, " of ", ranks);
  }
  if (!IsInitialized(config)) {
    return Refuse(ncclInvalidArgument, "a config without NCCL_CONFIG_INITIALIZER");
  }
  if (!group.calls.empty()) return Refuse(ncclInvalidUsage, "collectives stand in the group");
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return Refuse(ncclUnhandledCudaError, "no device");
  const std::string key(id.internal, sizeof id.internal);
  std::shared_ptr<Clique> clique;
  {
    NcclState& state = GlobalNccl();
    const Lock lock(state.mutex);
    std::shared_ptr<Clique>& found = state.by_id[key];
    if (found == nullptr) found = NewClique(ranks);
    clique = found;
    if (clique->ranks() != ranks || clique->members[rank] != nullptr) {
      return Refuse(ncclInvalidArgument, "rank ", rank, " of ", ranks, " comes to ",
                    clique->ranks(), " ranks that have it already");
    }
    *communicator = NewMember(clique, rank, device, IsBlocking(config));
    if (clique->come == ranks) {
      Complete(clique.get());
      state.by_id.erase(key);
      state.changed.notify_all();
    }
  }
  return Begin({[clique] { return clique->made != ncclInProgress; },
                [clique] {
                  return clique->made == ncclSuccess
                             ? ncclSuccess
                             : Refuse(clique->made, "two ranks have one device");
                }},
               IsBlocking(config));
}

// Makes the communicators of a split for which all ranks have asked: one a color, in the order of
// keys and then of ranks.
void Complete(const Clique& parent, Split* split) {
  std::map<int, std::vector<std::pair<int, int>>> colors;  // of key and rank
  for (const auto& [rank, request] : split->requests) {
    split->made[rank] = nullptr;
    if (request.color != NCCL_SPLIT_NOCOLOR) colors[request.color].push_back({request.key, rank});
  }
  for (auto& [color, ranks] : colors) {
    std::sort(ranks.begin(), ranks.end());
    const std::shared_ptr<Clique> clique = NewClique(static_cast<int>(ranks.size()));
    for (size_t i = 0; i < ranks.size(); ++i) {
      const int rank = ranks[i].second;
      split->made[rank] = NewMember(clique, static_cast<int>(i), parent.members[rank]->device,
                                    split->requests[rank].blocking);
    }
    Complete(clique.get());
  }
}

// The first thing that NCCL, too, sees wrong with a communicator that is about to be used.
ncclResult_t CheckCommunicator(ncclComm_t communicator) {
  if (GlobalNccl().live.count(communicator) == 0) {
    return Refuse(ncclInvalidArgument, "no such communicator");
  }
  if (communicator->clique->made == ncclInProgress) {
    ReportError(absl::StrCat("NCCL: communicator ", communicator->clique->number,
                             " is used before all its ranks have come"));
    return Refuse(ncclInvalidUsage, "the communicator is not ready");
  }
  if (communicator->finalized || communicator->error != ncclSuccess) {
    return Refuse(ncclInvalidUsage, "the communicator has ended");
  }
  return ncclSuccess;
}

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

// Buffers may be the same in one way a kind (header, "In-place operations").
bool IsInPlace(const NcclCall& call, int rank) {
  const size_t bytes = call.count * BytesOfNcclType(call.type);
  const auto* const send = static_cast<const char*>(call.send);
  const auto* const receive = static_cast<const char*>(call.receive);
  if (call.kind == NcclKind::kReduceScatter) return receive == send + rank * bytes;
  if (call.kind == NcclKind::kAllGather) return send == receive + rank * bytes;
  return send == receive;
}

ncclResult_t CheckCall(const ncclComm& communicator, const NcclCall& call, int stream_device) {
  const int rank = communicator.rank, ranks = communicator.clique->ranks();
  const size_t sent = call.SendBytes(rank, ranks), received = call.ReceiveBytes(rank, ranks);
  if (BytesOfNcclType(call.type) == 0) return Refuse(ncclInvalidArgument, "type ", call.type);
  if (call.op < ncclSum || call.op > ncclAvg) return Refuse(ncclInvalidArgument, "op ", call.op);
  if (call.root < 0 || call.root >= ranks) {
    return Refuse(ncclInvalidArgument, "root or peer ", call.root, " of ", ranks);
  }
  if ((sent > 0 && call.send == nullptr) || (received > 0 && call.receive == nullptr)) {
    return Refuse(ncclInvalidArgument, "a buffer is null");
  }
  if (stream_device != communicator.device) {
    return Refuse(ncclInvalidUsage, "the stream is of device ", stream_device,
                  ", the communicator's rank of device ", communicator.device);
  }
  if (!IsInPlace(call, rank) && Overlap(call.send, sent, call.receive, received)) {
    ReportError(absl::StrCat("NCCL: communicator ", communicator.clique->number, ", rank ", rank,
                             ": ", call.Text(), ": buffers overlap, and not as in place"));
    return Refuse(ncclInvalidUsage, "buffers overlap");
  }
  return ncclSuccess;
}

// What one stream is given by a group, which goes on together.
struct Batch {
  ncclComm_t communicator;
  cudaStream_t stream;
  std::shared_ptr<Clique> clique;
  std::vector<Seat> seats;
  std::vector<LibraryAccess> accesses;
  std::vector<MeetingPoint> meets;
  std::string name;
};

ncclResult_t Enqueue(const Batch& batch) {
  const auto ended = [clique = batch.clique, aborted = batch.communicator->aborted] {
    return clique->failed || *aborted;
  };
  const auto ready = [seats = batch.seats, ended] {
    const Lock lock(GlobalNccl().mutex);
    bool all = true;
    for (const Seat& seat : seats) all = seat.meeting->Arrive(seat.participant) && all;
    return all || ended();
  };
  const auto compute = [seats = batch.seats, ended] {
    const Lock lock(GlobalNccl().mutex);
    if (ended()) return;
    for (const Seat& seat : seats) seat.meeting->Leave(seat.participant);
  };
  // The communicator's device is the thread's for the time of the call.
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(batch.communicator->device);
  const cudaError_t error =
      EnqueueLibraryCall(batch.stream, {batch.name, batch.accesses, compute, ready, batch.meets});
  cudaSetDevice(before);
  return error == cudaSuccess ? ncclSuccess : Refuse(ncclUnhandledCudaError, "the stream failed");
}

void AddTo(const PendingNcclCall& pending, const Seat& seat, std::vector<Batch>* batches) {
  auto found = std::find_if(batches->begin(), batches->end(), [&](const Batch& batch) {
    return batch.communicator == pending.communicator && batch.stream == pending.stream;
  });
  if (found == batches->end()) {
    batches->push_back(
        {pending.communicator, pending.stream, pending.communicator->clique, {}, {}, {}, ""});
    found = batches->end() - 1;
  }
  const NcclCall& call = pending.call;
  const int rank = pending.communicator->rank, ranks = pending.communicator->clique->ranks();
  if (const size_t bytes = call.SendBytes(rank, ranks); bytes > 0) {
    found->accesses.push_back({call.send, bytes, false});
  }
  if (const size_t bytes = call.ReceiveBytes(rank, ranks); bytes > 0) {
    found->accesses.push_back({call.receive, bytes, true});
  }
  found->seats.push_back(seat);
  if (seat.meeting->point() != nullptr) found->meets.push_back(seat.meeting->point());
  absl::StrAppend(&found->name, found->name.empty() ? "" : " and ", call.Text());
}

ncclResult_t Submit(const std::vector<PendingNcclCall>& calls, bool grouped) {
  std::vector<Batch> batches;
  {
    const Lock lock(GlobalNccl().mutex);
    std::map<int, std::vector<Seat>> by_device;
    for (const PendingNcclCall& pending : calls) {
      const Seat seat = TakeSeat(pending, grouped);
      by_device[pending.communicator->device].push_back(seat);
      AddTo(pending, seat, &batches);
    }
    for (const auto& [device, seats] : by_device) CheckOrder(device, seats);
  }
  // Not under the lock: the runtime's, which is held where calls of ours are asked, comes first.
  ncclResult_t result = ncclSuccess;
  for (const Batch& batch : batches) {
    const ncclResult_t one = Enqueue(batch);
    if (result == ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t Call(ncclComm_t communicator, cudaStream_t stream, const NcclCall& call) {
  int stream_device = -1;
  if (cudaStreamGetDevice(stream, &stream_device) != cudaSuccess) {
    return Refuse(ncclInvalidArgument, "no such stream");
  }
  {
    const Lock lock(GlobalNccl().mutex);
    const ncclResult_t usable = CheckCommunicator(communicator);
    if (usable != ncclSuccess) return usable;
    const ncclResult_t right = CheckCall(*communicator, call, stream_device);
    if (right != ncclSuccess) return right;
  }
  if (group.depth == 0) return Submit({{communicator, call, stream}}, false);
  if (!group.beginnings.empty()) {
    return Refuse(ncclInvalidUsage, "communicators begin in the group");
  }
  group.calls.push_back({communicator, call, stream});
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  const Lock lock(GlobalNccl().mutex);
  const uint64_t number = ++GlobalNccl().ids;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id, &number, sizeof number);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  return InitRank(communicator, ranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return InitRank(communicator, ranks, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  if (made == nullptr || !IsInitialized(config) || color < NCCL_SPLIT_NOCOLOR) {
    return Refuse(ncclInvalidArgument, "color ", color);
  }
  std::shared_ptr<Split> split;
  int rank = 0;
  {
    NcclState& state = GlobalNccl();
    const Lock lock(state.mutex);
    const ncclResult_t usable = CheckCommunicator(parent);
    if (usable != ncclSuccess) return usable;
    rank = parent->rank;
    std::shared_ptr<Split>& found = parent->clique->split[parent->splits++];
    if (found == nullptr) found = std::make_shared<Split>();
    split = found;
    split->requests[rank] = {color, key, IsBlocking(config)};
    if (static_cast<int>(split->requests.size()) == parent->clique->ranks()) {
      Complete(*parent->clique, split.get());
      state.changed.notify_all();
    }
  }
  // Whether or not the rank waits, it learns of its communicator here.
  return Begin({[split] { return !split->made.empty(); },
                [split, rank, made] {
                  *made = split->made[rank];
                  return ncclSuccess;
                }},
               true);
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const Lock lock(GlobalNccl().mutex);
  const ncclResult_t usable = CheckCommunicator(communicator);
  if (usable == ncclSuccess) communicator->finalized = true;
  return usable;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  NcclState& state = GlobalNccl();
  const Lock lock(state.mutex);
  if (state.live.erase(communicator) == 0) {
    return Refuse(ncclInvalidArgument, "no such communicator");
  }
  Clique& clique = *communicator->clique;
  clique.members[communicator->rank] = nullptr;
  if (++clique.gone == clique.ranks()) CheckNothingIsLeft(clique);
  delete communicator;
  return ncclSuccess;
}

// Ends this rank's calls at once. Others wait until they abort as well, and are told that somebody
// has gone.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  NcclState& state = GlobalNccl();
  const Lock lock(state.mutex);
  if (state.live.erase(communicator) == 0) {
    return Refuse(ncclInvalidArgument, "no such communicator");
  }
  Clique& clique = *communicator->clique;
  *communicator->aborted = true;
  clique.members[communicator->rank] = nullptr;
  ++clique.gone;
  for (const ncclComm_t member : clique.members) {
    if (member != nullptr && member->error == ncclSuccess) member->error = ncclRemoteError;
  }
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const Lock lock(GlobalNccl().mutex);
  if (error == nullptr || GlobalNccl().live.count(communicator) == 0) {
    return Refuse(ncclInvalidArgument, "no such communicator");
  }
  const ncclResult_t made = communicator->clique->made;
  *error = made != ncclSuccess ? made : communicator->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  const Lock lock(GlobalNccl().mutex);
  if (GlobalNccl().live.count(communicator) == 0) return ncclInvalidArgument;
  *count = communicator->clique->ranks();
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  const Lock lock(GlobalNccl().mutex);
  if (GlobalNccl().live.count(communicator) == 0) return ncclInvalidArgument;
  *device = communicator->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  const Lock lock(GlobalNccl().mutex);
  if (GlobalNccl().live.count(communicator) == 0) return ncclInvalidArgument;
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

// Nothing reaches a stream before the outermost end.
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return Refuse(ncclInvalidUsage, "no group has been started");
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, Group());
  if (ended.error != ncclSuccess) return ended.error;
  const ncclResult_t begun = WaitFor(ended.beginnings);
  return begun == ncclSuccess ? Submit(ended.calls, true) : begun;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream, {NcclKind::kAllReduce, send, receive, count, type, op});
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream, {NcclKind::kReduce, send, receive, count, type, op, root});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream, {NcclKind::kReduceScatter, send, receive, count, type, op});
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream, {NcclKind::kAllGather, send, receive, count, type});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream,
              {NcclKind::kBroadcast, send, receive, count, type, ncclSum, root});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream, {NcclKind::kSend, send, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return Call(communicator, stream,
              {NcclKind::kRecv, nullptr, receive, count, type, ncclSum, peer});
}

}  // extern "C"

}  // namespace sluice::cuda_emulation
