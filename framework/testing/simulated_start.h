// One start of a job in a simulation: its processes, which meet, take the run's folder, train from
// its last checkpoint on, and save. From the meeting on they run what a trainer does: Session,
// Trainer, RunLock, checkpoints; only the meeting itself is a model. For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_SIMULATED_START_H_
#define SLUICE_FRAMEWORK_TESTING_SIMULATED_START_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/checkpoint/faulty_disk.h"
#include "framework/session/session.h"
#include "framework/testing/simulated_disk.h"
#include "framework/testing/simulated_net.h"
#include "framework/testing/simulated_task.h"
#include "framework/testing/simulation.h"
#include "framework/train/run_lock.h"
#include "framework/train/trainer.h"

namespace sluice {

// Mistakes in how a job recovers, planted to see that they are found.
enum class RecoveryFault {
  kNone,
  kNoLock,          // a job does not mind another one at work in its folder
  kOlderState,      // it goes on from an older checkpoint than the last
  kStateForgotten,  // the last rank goes on with initial values
  kSamplesAgain,    // it sees the samples of the first steps again
  kSyncForgotten,   // what is synced is lost with the power all the same
  kEarlyCommit,     // rank 0 does not wait for what others have to say
};

// What all starts of a job have in common.
struct SimulatedHost {
  Simulation* simulation = nullptr;
  const SimulatedTask* task = nullptr;
  std::string folder;
  RecoveryFault fault = RecoveryFault::kNone;
  FaultyDisk disk;
  FILE* printed = nullptr;    // what trainers print
  std::set<int32_t> at_work;  // starts that have taken the folder
  int64_t committed = 0;      // steps of the last checkpoint
  int64_t on_disk = 0;        // of the last one that no loss of power takes back
};

// What a rank's kernels are to fail with, once.
struct KernelFault {
  int64_t step = -1, failed_step = -1;  // to be failed, and that has
  std::string reason;
};

class SimulatedStart {
 public:
  struct Rank {
    std::unique_ptr<SimulatedProcess> process;
    std::unique_ptr<SimulatedDisk> disk;
    KernelFault kernel_fault;
    bool asked_to_stop = false;
    bool silent = false;  // its end is not noticed but by its silence
    // Of the meeting: who is there, and what rank 0 has told.
    int32_t met = 0;
    std::optional<absl::StatusOr<std::string>> told;
    std::optional<absl::Status> status;  // how it ended; killed: none that counts
    bool finished = false;               // with all steps
    int64_t steps_taken = 0;             // of the run, that ended without an error
    int64_t failed_saves = 0;
  };

  // The host and the simulation must outlive it.
  SimulatedStart(SimulatedHost* host, int32_t number, const SimulatedNetOptions& options);
  // Its processes begin, each in a time of its own.
  void Begin();

  // One of its processes; silently: with its host, so that its connections do not end.
  void Kill(int32_t rank, bool silently);

  int32_t number() const { return number_; }
  Rank& rank(int32_t rank) { return ranks_[rank]; }
  int32_t ranks() const { return static_cast<int32_t>(ranks_.size()); }
  SimulatedNet& net() { return *net_; }
  bool over() const;
  // A process has been killed, or ended with an error.
  bool failed() const;
  bool finished() const;  // all ranks have all steps
  // The first step that a kernel of any rank has failed in; -1: none has.
  int64_t FailedStep() const;
  // The last moment at which one of its processes that live stands still.
  Simulation::Clock::time_point StandsUntil() const;
  std::string WaitsFor() const;

 private:
  void Main(int32_t rank);
  absl::Status Run(int32_t rank);
  absl::Status Meet(int32_t rank);
  absl::StatusOr<std::string> Share(int32_t rank, const absl::StatusOr<std::string>& mine);
  absl::StatusOr<std::string> TakeFolder(std::optional<RunLock>* lock);
  absl::Status Train(int32_t rank, const std::string& checkpoint, Session* session);
  absl::Status Restore(int32_t rank, const std::string& checkpoint, Session* session,
                       Trainer* trainer);
  absl::Status CheckRecord(int32_t rank, const TrainingRecord& record, Session* session);
  void Done(const FileOperation& operation);
  void Fail(const absl::Status& violation);

  SimulatedHost& host_;
  Simulation& simulation_;
  const int32_t number_;
  std::vector<Rank> ranks_;
  std::unique_ptr<SimulatedNet> net_;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SIMULATED_START_H_
