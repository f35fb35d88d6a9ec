// Lowers a graph with its SBP assignment to tasks: one per op and represented device, boxing over
// time and space between. An op fires once per micro-batch iff one of its operands is not B over
// time.
#ifndef SLUICE_FRAMEWORK_COMPILER_LOWER_H_
#define SLUICE_FRAMEWORK_COMPILER_LOWER_H_

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/task_graph.h"

namespace sluice {

// Tasks of the representatives, which read values of representatives alone; boxings have regions,
// whose sources are then not those of the device. Errors: a boxing that cannot be done, with the
// tensor's name.
absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine, const DeviceClasses& classes);
// Tasks of all devices.
absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine);

// The values of tensors by layout and stage; makes the boxing that a reader asks for, once.
class Boxer {
 public:
  Boxer(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
        BoxingPlanner* planner, const Machine& machine, const DeviceClasses& classes,
        TaskGraph* tasks)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        planner_(planner),
        machine_(machine),
        classes_(classes),
        tasks_(tasks) {}

  // One value per represented device of the stage, in the order of DeviceClasses::members.
  using Values = std::vector<ValueId>;
  absl::StatusOr<Values> Get(TensorId tensor, const NdSbp& wanted, int32_t stage, Phase phase);
  void Put(TensorId tensor, const NdSbp& sbp, int32_t stage, Values values);
  // New values of a layout, without producer.
  Values Make(TensorId tensor, const NdSbp& sbp, int32_t stage, int64_t tokens);
  ValueId Add(Value value);
  TaskId Add(Task task);  // sets the producer of its outputs
  int64_t NextPosition() { return ++position_; }
  // Boxings from here on are made because this node asks for them.
  void set_reader(const std::string& reader) { reader_ = reader; }

 private:
  using Key = std::tuple<TensorId, NdSbp, int32_t>;
  struct At {  // where a tensor is while boxings bring it on
    TensorId tensor;
    NdSbp sbp;
    int32_t stage;
    Values values;
  };
  absl::Status Feed(TensorId tensor, const NdSbp& sbp, int32_t stage);
  absl::Status OverTime(At* at, Sbp wanted, Phase phase);
  void Retime(At* at, Sbp wanted, absl::string_view recipe, int64_t tokens, Phase phase,
              absl::FunctionRef<void(const Shard& source, const Shard& target, Task* task)> fill);
  void Accumulate(At* at);
  void Pack(At* at, Phase phase);
  void SliceTime(At* at, Sbp wanted, Phase phase);
  absl::Status OverSpace(At* at, const NdSbp& wanted, int32_t stage, Phase phase);
  Values EmitBoxing(const At& at, const SymbolicBoxing& boxing, const NdSbp& wanted, int32_t stage,
                    Phase phase);
  // What a step of a boxing has beside it, for all devices.
  struct PhaseStep {
    const At& at;  // where the boxing begins
    const SymbolicBoxing& boxing;
    size_t phase_index = 0;
    int step = 0;
    Shape shape;  // of one firing
    int32_t from_stage = 0, to_stage = 0;
    int64_t tokens = 1;
    Phase phase = Phase::kForward;
    const BoxingPhase& symbolic() const { return boxing.phases[phase_index]; }
    const PhaseStepLoad& load() const { return boxing.loads[phase_index].steps[step]; }
    bool last() const;  // of the boxing
  };
  Values EmitStep(const PhaseStep& step, const Values& held, const Values& made);
  void ReadInPlace(const PhaseStep& step, const Values& held, const Values& outputs);
  bool FollowsCompute(const PhaseStep& step, const Values& held) const;
  void EmitWrite(const PhaseStep& step, const Values& held, int32_t place, ValueId output,
                 plan::StreamKind stream);
  void AddRegions(const PhaseStep& step, const Values& held, int32_t place, const PhaseWrite& write,
                  Task* task) const;
  ValueId BufferValue(const PhaseStep& step, int32_t place);
  void View(ValueId view, ValueId source, int64_t offset);
  Task FoldTask(const At& at, ValueId output, Phase phase) const;
  void Note(const At& at, const std::string& recipe, const NdSbp& to, Phase phase, int64_t firings,
            int64_t bytes);

  const Graph& graph_;
  const Grid& grid_;
  const SbpAssignment& assignment_;
  BoxingPlanner* planner_;
  const Machine& machine_;
  const DeviceClasses& classes_;
  TaskGraph* tasks_;
  std::map<Key, Values> values_;
  std::string reader_;
  int64_t position_ = 0, sequence_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_LOWER_H_
