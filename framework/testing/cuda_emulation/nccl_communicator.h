// Communicators of the emulated NCCL: who belongs together, and where each of their calls meets.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_NCCL_COMMUNICATOR_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_NCCL_COMMUNICATOR_H_

#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/testing/cuda_emulation/nccl_meeting.h"

namespace sluice::cuda_emulation {

struct Clique;

// A communicator that is being split: what each rank asked for.
struct Split {
  struct Request {
    int color = 0, key = 0;
    bool blocking = true;
  };
  std::map<int, Request> requests;  // by rank
  std::map<int, ncclComm_t> made;   // when all have come
};

}  // namespace sluice::cuda_emulation

// One rank's end of a communicator.
struct ncclComm {
  std::shared_ptr<sluice::cuda_emulation::Clique> clique;
  int rank = 0, device = 0;
  bool blocking = true, finalized = false;
  // Its calls, which may outlive it, are to end as they are.
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  int64_t position = 0;  // of its next collective
  int64_t splits = 0;
  ncclResult_t error = ncclSuccess;  // asynchronous
  std::string last_error;
};

namespace sluice::cuda_emulation {

// The ranks of a communicator.
struct Clique {
  int number = 0;  // in reports
  std::vector<ncclComm_t> members;
  int come = 0, gone = 0;
  ncclResult_t made = ncclInProgress;
  bool failed = false;  // ranks disagree: nothing more is computed
  // Those that some rank has yet to give: by position; by sender, receiver and number.
  std::map<int64_t, std::shared_ptr<Meeting>> collectives;
  std::map<std::tuple<int, int, int64_t>, std::shared_ptr<Meeting>> pairs;
  std::map<std::pair<int, int>, int64_t> sent, received;
  std::map<int64_t, std::shared_ptr<Split>> split;

  int ranks() const { return static_cast<int>(members.size()); }
};

struct NcclState {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<const ncclComm*> live;
  std::map<std::string, std::shared_ptr<Clique>> by_id;       // that ranks have yet to come to
  std::map<int, std::vector<std::shared_ptr<Meeting>>> last;  // by device: what it was given last
  int cliques = 0;
  uint64_t ids = 0;
};
NcclState& GlobalNccl();

// A call as it was made, and the stream that it was made on.
struct PendingNcclCall {
  ncclComm_t communicator;
  NcclCall call;
  cudaStream_t stream;
};

// One rank's place at a meeting.
struct Seat {
  std::shared_ptr<Meeting> meeting;
  int participant;
};

// All below: under the state's lock.

// Takes a seat for the call, by its position. What ranks say differently is reported, and ends the
// communicator.
Seat TakeSeat(const PendingNcclCall& pending, bool grouped);
// What a device is given from one group goes on together; groups come one after the other, and all
// devices must have those of several communicators in one order. Reports a circle.
void CheckOrder(int device, const std::vector<Seat>& seats);
// The last rank has gone: reports what did not come to a meeting.
void CheckNothingIsLeft(const Clique& clique);
// Nothing more is computed; GetAsyncError says so to all ranks.
void Fail(Clique* clique, const std::string& report);

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_NCCL_COMMUNICATOR_H_
