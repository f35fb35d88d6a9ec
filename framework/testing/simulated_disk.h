// A host's disk as one process of a simulation has it: each operation takes a time, may be the last
// that the process does, or fail; and what nobody synced is lost with the power (checkpoint/
// faulty_disk.h, which does it to files that are really there). For tests.
#ifndef SLUICE_FRAMEWORK_TESTING_SIMULATED_DISK_H_
#define SLUICE_FRAMEWORK_TESTING_SIMULATED_DISK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "framework/checkpoint/faulty_disk.h"
#include "framework/testing/simulation.h"

namespace sluice {

class SimulatedDisk final : public FileFaults {
 public:
  // `host`: the disk that all processes share. `done` sees each operation right before it is made.
  SimulatedDisk(Simulation* simulation, SimulatedProcess* process, FaultyDisk* host,
                std::function<void(const FileOperation&)> done)
      : simulation_(*simulation), process_(*process), host_(*host), done_(std::move(done)) {}

  // At the n-th operation from now: kKill, or an error as FaultyDisk has it.
  void FailAt(int64_t operation, DiskFault fault);
  bool failed() const { return failing_ != nullptr && failing_->struck(); }
  // Planted: syncs do nothing.
  void ForgetSyncs() { forgets_syncs_ = true; }

  int Before(FileOperation* operation) override;

 private:
  Simulation& simulation_;
  SimulatedProcess& process_;
  FaultyDisk& host_;
  const std::function<void(const FileOperation&)> done_;
  int64_t kill_in_ = -1;
  std::unique_ptr<FaultyDisk> failing_;
  bool forgets_syncs_ = false;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_SIMULATED_DISK_H_
