// What the emulated NCCL computes: a collective, or a send and its receive, where ranks meet.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_NCCL_MEETING_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_NCCL_MEETING_H_

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/testing/cuda_emulation/emulation.h"

namespace sluice::cuda_emulation {

enum class NcclKind { kAllReduce, kReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

// One rank's part. `count` is the argument of that name, which is what goes in (AllGather) or comes
// out (ReduceScatter) of one rank.
struct NcclCall {
  NcclKind kind = NcclKind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // or the peer

  bool IsPair() const { return kind == NcclKind::kSend || kind == NcclKind::kRecv; }
  // What this rank of so many reads and writes, in bytes; 0: nothing.
  size_t SendBytes(int rank, int ranks) const;
  size_t ReceiveBytes(int rank, int ranks) const;
  // "ncclAllReduce of 4 f32, sum": what all ranks must say alike.
  std::string Text() const;
};

// 0 of a type that the emulation does not know.
size_t BytesOfNcclType(ncclDataType_t type);

// Ranks come when their streams do, and go on when all have come. All of it under one lock.
class Meeting {
 public:
  // A participant is a rank, or of a pair 0 the sender and 1 the receiver.
  Meeting(std::string name, int participants)
      : name_(std::move(name)), calls_(participants), arrived_(participants), left_(participants) {}

  const std::string& name() const { return name_; }
  void Join(int participant, const NcclCall& call);
  bool HasJoined(int participant) const { return calls_[participant].joined; }
  bool AllJoined() const;
  const NcclCall& call(int participant) const { return calls_[participant].call; }

  // The participant's stream is at the call; whether all are.
  bool Arrive(int participant);
  // Gives the participant its result. REQUIRES: Arrive() said so. What others send is read by the
  // first who leaves, before anyone's stream goes on.
  void Leave(int participant);

  // Null: one may end before another has begun, or nothing moves.
  const MeetingPoint& point() const { return point_; }

  // Meetings that come later on a device, for the order of communicators.
  std::vector<std::shared_ptr<Meeting>> later;
  // Threads that came without a group, by participant.
  std::vector<std::pair<uint64_t, int>> threads;

 private:
  struct Participant {
    NcclCall call;
    bool joined = false;
  };
  void Compute();
  void ComputePair();

  const std::string name_;
  MeetingPoint point_;
  std::vector<Participant> calls_;
  // How many times each has come and gone: a captured call comes again.
  std::vector<int64_t> arrived_, left_;
  int64_t computed_ = 0;
  std::vector<std::vector<char>> results_;
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_NCCL_MEETING_H_
