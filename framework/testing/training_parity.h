// Parity of layouts: training a small model on any layout must equal training it on one device, to
// rounding. A model brings a ParityCase a layout. Two checks, with the bounds that separate
// rounding from bugs:
//   lockstep  at some steps both start from the same weights and optimizer state; every gradient,
//             every updated weight and state tensor is compared. Finds any wrong gradient at once.
//   free run  both train on; loss, gradient norm and parameter norm are compared step by step, and
//             replicas bit by bit. Finds what only shows over steps.
// For tests. One thread.
#ifndef SLUICE_FRAMEWORK_TESTING_TRAINING_PARITY_H_
#define SLUICE_FRAMEWORK_TESTING_TRAINING_PARITY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/dataset.h"
#include "framework/graph/graph.h"
#include "framework/nn/learning_rate.h"
#include "framework/passes/optimizer.h"
#include "framework/plan/plan.pb.h"
#include "framework/runtime/runtime.h"
#include "framework/session/session.h"

namespace sluice {

// Compared steps are 0 .. kParitySteps.
constexpr int64_t kParitySteps = 50;
// Steps of the free run in which roundings have not yet grown.
constexpr int64_t kParityEarly = 10;

// Relative differences that are allowed. As they stand, of f32 against f32: benign ones stay 5
// times below those of the lockstep and the early free run; the least of the known bugs lies 7
// times above.
struct ParityBounds {
  // A ReLU whose input is zero but for rounding passes all of a gradient on one layout and none on
  // another. With this, a lockstep step that differs is compared on other batches as well, and so
  // is a free run; only what differs on all of them is wrong, as every mistake does.
  bool may_try_other_batches = false;
  int64_t free_steps = kParitySteps;  // the last step of the free run
  double early_loss = 5e-7, early_grad_norm = 2e-6, early_parameter_norm = 1e-9;
  double late_loss = 5e-6, late_grad_norm = 2e-4;
  double lockstep_loss = 1e-6, lockstep_grad_norm = 1e-6;
  double gradient = 1e-5, first_moment = 1e-5, second_moment = 2e-5;
  // A new weight: |p' - q'| <= weight_ulps |p| + weight_step |p' - p|, more at the first step.
  double weight_ulps = 1e-7, weight_step = 2e-5, first_step_factor = 5;
  // What a parameter without a gradient gets is rounding, of which Adam makes steps of any size up
  // to the learning rate.
  double no_gradient = 1e-8, no_gradient_rates = 3;
};
// Of bf16 against f32. Whatever is wrong by less, such as a wrong mask after 20 steps, f32 has to
// find.
ParityBounds Bf16Bounds();

// How a model is trained. The regime has to be calm: roundings must not grow much in 50 steps.
struct TrainingSetting {
  std::string name;
  OptimizerOptions optimizer;
  LearningRateSchedule schedule;
};

// Constant rates after a warm-up of 20 steps. Nothing hides the scale of a gradient in the third:
// no clip, no momentum. The last is how networks for pictures are trained: Nesterov's momentum,
// weight decay.
TrainingSetting AdamWWithClip();
TrainingSetting AdamWWithoutClip();
TrainingSetting PlainSgd();
TrainingSetting SgdWithMomentum();
// With a clip, which takes part in the ratios, and weight decay.
TrainingSetting LarsWithClip();
TrainingSetting LambWithClip();
TrainingSetting AdagradWithClip();

// A model on a layout.
struct ParityCase {
  std::string name;  // of the layout, for errors
  std::string mesh;
  int64_t micro_batches = 1, chunks = 1, script_length = 0;  // as CompileOptions has them
  bool cuda_graphs = true;
  bool fetches_gradients = true;  // with each step; lockstep compares them
  int64_t batch = 1;
  bool fuse = true;
  int64_t largest_logits = 128 << 10;  // a few pieces of the tiny GPT's
  // The train program: outputs "loss" and "grad_norm", gradients by their role, inputs
  // "learning_rate", "step" and the fields of the data.
  std::function<absl::Status(const OptimizerOptions& optimizer, Graph* graph)> build;
  std::function<absl::StatusOr<std::shared_ptr<const Dataset>>()> open_data;
  uint64_t data_seed = 1;                          // of the order of samples
  const DeviceSupport* cuda = nullptr;             // what runs it, if the mesh has CUDA devices
  const CollectiveSupport* collectives = nullptr;  // null: there are none, only copies and folds
  ParityBounds bounds;
  // Of a variable, by its name: the gradient is zero but for rounding. None, if empty.
  std::function<bool(absl::string_view variable)> has_no_gradient;
};

struct StepRecord {
  double loss = 0, grad_norm = 0;
  double parameter_norm = 0;  // after the update; of early steps alone
};

// The state around one step of the reference.
struct LockstepPoint {
  int64_t step = 0;
  int64_t batch = 0;      // that it was fed, by number; as the step's as a rule
  Fetches before, after;  // all variables
  Fetches gradients;      // by variable
  StepRecord record;
};

struct Reference {
  ParityCase of;
  TrainingSetting setting;
  std::vector<StepRecord> records;  // of steps 0 .. kParitySteps
  std::vector<LockstepPoint> points;
};

// The largest differences that a check met, whether it passed or not; relative.
struct ParityFigures {
  double loss = 0, grad_norm = 0, parameter_norm = 0;  // free run
  double early_loss = 0, early_grad_norm = 0;          // free run, to step 10
  double gradient = 0;                                 // lockstep, worst tensor
  double update = 0;                                   // lockstep, in units of its bound
  std::string worst_gradient, worst_update;
  std::string ToString() const;
};

// Changes a compiled plan before it starts.
using PlanMutation = std::function<absl::Status(plan::Plan*)>;

// One session that trains a case's model and also fetches "gradient/<variable>".
class ParityRun {
 public:
  static absl::StatusOr<std::unique_ptr<ParityRun>> Start(const ParityCase& of,
                                                          const TrainingSetting& setting,
                                                          const PlanMutation& mutate = {});
  // The same of a plan that CompileParityPlan made, which may have been changed, and with other
  // options of the runtime; its kernels are the CPU's.
  static absl::StatusOr<std::unique_ptr<ParityRun>> Start(const ParityCase& of,
                                                          const TrainingSetting& setting,
                                                          plan::Plan plan, RuntimeOptions options);
  // Runs one step of this number; fetches() holds its results.
  absl::StatusOr<StepRecord> Step(int64_t step) { return Step(step, step); }
  // The same on the batch that another step of the run would see.
  absl::StatusOr<StepRecord> Step(int64_t step, int64_t batch);
  const Fetches& fetches() const { return fetches_; }
  Session* session() { return session_.get(); }
  const ParityCase& parity_case() const { return case_; }

  absl::StatusOr<Fetches> ReadVariables();
  absl::Status WriteVariables(const Fetches& values);

 private:
  ParityRun(const ParityCase& of, const TrainingSetting& setting,
            std::shared_ptr<const Dataset> data);

  const ParityCase case_;
  const TrainingSetting setting_;
  const std::shared_ptr<const Dataset> data_;
  bool one_rank_ = true;
  std::unique_ptr<Session> session_;
  Fetches fetches_;
};

// The train program's plan, with gradients as outputs: of one of so many ranks.
absl::StatusOr<plan::Plan> CompileParityPlan(const ParityCase& of, const TrainingSetting& setting,
                                             int32_t rank = 0, int32_t ranks = 1);

// Trains on what others are to equal, one device as a rule, and keeps the state around steps 0, 10
// and 50.
absl::StatusOr<Reference> RunReference(const ParityCase& of, const TrainingSetting& setting);

// Errors name what differs, at which step, what was expected and got.
absl::Status CheckLockstep(const Reference& reference, ParityRun* run, ParityFigures* figures);
// Trains from step `begin`, at which the variables must stand, to step `end`, both included.
absl::Status CheckFreeRun(const Reference& reference, int64_t begin, int64_t end, ParityRun* run,
                          ParityFigures* figures);
// Starts a session of the case, then the free run and the lockstep.
absl::Status CheckCase(const Reference& reference, const ParityCase& of, ParityFigures* figures);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TESTING_TRAINING_PARITY_H_
