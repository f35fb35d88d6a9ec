// Training steps of the GPT on several layouts: what the compiler predicts, and what they take, in
// turns, so that all meet the same machine. One thread.
#ifndef SLUICE_BENCH_LAYOUT_TIMING_H_
#define SLUICE_BENCH_LAYOUT_TIMING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/actor/worker_clock.h"
#include "framework/machine/machine.h"
#include "framework/plan/plan.pb.h"
#include "models/gpt/gpt.h"

namespace sluice {

class TimedLayout {
 public:
  // Of a preset's train program, as the trainer runs it.
  static absl::StatusOr<TimedLayout> Compile(const std::string& model, const std::string& mesh,
                                             int64_t micro_batches, const Machine& machine);
  const std::string& model() const { return model_; }
  const std::string& name() const { return name_; }  // "data=2 pipe=2 micro=2"
  const GptConfig& config() const { return config_; }
  const plan::Plan& plan() const { return plan_; }
  const WorkerClockResult& predicted() const { return predicted_; }

 private:
  std::string model_, name_;
  GptConfig config_;
  plan::Plan plan_;
  WorkerClockResult predicted_;
};

// Nanoseconds of a step, of all workers together.
struct OpTime {
  double predicted = 0, measured = 0;
};

struct LayoutTiming {
  double median = 0;                  // nanoseconds of a step, over the rounds
  std::map<std::string, OpTime> ops;  // by op; "waiting" is what is left of the workers' time
};

// Steps follow each other as in training, the session ahead of results. What each op took comes
// from one traced turn of its own. InvalidArgument: no round, or none of steps.
absl::StatusOr<std::vector<LayoutTiming>> TimeLayouts(const std::vector<TimedLayout>& layouts,
                                                      int64_t rounds, int64_t steps_a_round);

}  // namespace sluice

#endif  // SLUICE_BENCH_LAYOUT_TIMING_H_
