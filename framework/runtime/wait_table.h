// Where the actors of this rank stand, as its workers say when they are asked. Any thread.
#ifndef SLUICE_FRAMEWORK_RUNTIME_WAIT_TABLE_H_
#define SLUICE_FRAMEWORK_RUNTIME_WAIT_TABLE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/plan/plan.pb.h"
#include "framework/runtime/waits.h"

namespace sluice {

class Worker;
struct RunningProgram;

class WaitTable {
 public:
  WaitTable(const plan::Plan* plan, const std::vector<RunningProgram>* programs,
            const std::vector<std::unique_ptr<Worker>>* workers)
      : plan_(*plan), programs_(*programs), workers_(*workers) {}

  // The streams that are not through with the steps that have begun. A worker that runs an
  // instruction answers late: of its actors only that one is known after a tenth of a second.
  // `quiet`: for how many seconds nothing has moved.
  std::vector<StreamWait> Streams(double quiet);

 private:
  std::vector<std::vector<ActorState>> AskWorkers();

  const plan::Plan& plan_;
  const std::vector<RunningProgram>& programs_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  std::mutex mutex_;      // a worker keeps the answer to one question
  int64_t question_ = 0;  // guarded by mutex_
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_RUNTIME_WAIT_TABLE_H_
