#include "framework/testing/simulated_disk.h"

#include <cerrno>
#include <chrono>

namespace sluice {

void SimulatedDisk::FailAt(int64_t operation, DiskFault fault) {
  if (fault == DiskFault::kKill) {
    kill_in_ = operation;
  } else {
    failing_ = std::make_unique<FaultyDisk>(fault, operation);
  }
}

int SimulatedDisk::Before(FileOperation* operation) {
  process_.Sleep(simulation_.Draw(std::chrono::milliseconds(2)));
  if (kill_in_ >= 0 && kill_in_-- == 0) process_.Kill();
  // Nothing that is done after that reaches the disk.
  if (process_.killed()) return EIO;
  if (failing_ != nullptr) {
    if (const int error = failing_->Before(operation); error != 0) return error;
  }
  if (!forgets_syncs_ || operation->call != FileCall::kSync) host_.Before(operation);
  done_(*operation);
  return 0;
}

}  // namespace sluice
