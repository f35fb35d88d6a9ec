// Lowers a graph with its SBP assignment to tasks: one per op and device, boxing over time and
// space between. An op fires once per micro-batch iff one of its operands is not B over time.
#ifndef SLUICE_FRAMEWORK_COMPILER_LOWER_H_
#define SLUICE_FRAMEWORK_COMPILER_LOWER_H_

#include <map>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/task_graph.h"

namespace sluice {

// Errors: a boxing that cannot be done, with the tensor's name.
absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine);

// The values of tensors by layout and stage; makes the boxing that a reader asks for, once.
class Boxer {
 public:
  Boxer(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
        BoxingPlanner* planner, const Machine& machine, TaskGraph* tasks)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        planner_(planner),
        machine_(machine),
        tasks_(tasks) {}

  // One value per device of the stage.
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
              absl::FunctionRef<void(const Part& source, const Part& target, Task* task)> fill);
  void Accumulate(At* at);
  void Pack(At* at, Phase phase);
  void SliceTime(At* at, Sbp wanted, Phase phase);
  absl::Status OverSpace(At* at, const NdSbp& wanted, int32_t stage, Phase phase);
  Values EmitBoxing(const At& at, const Boxing& boxing, const NdSbp& wanted, int32_t stage,
                    Phase phase);
  void EmitWrite(const At& at, const Boxing& boxing, const BoxingWrite& write, int64_t tokens,
                 int32_t stage, Phase phase, std::vector<ValueId>* buffers);
  ValueId BufferValue(const At& at, const BoxingBuffer& buffer, int64_t tokens, int32_t stage);
  bool ReadInPlace(const Boxing& boxing, const BoxingWrite& write,
                   const std::vector<ValueId>& buffers);
  Task BoxTask(const At& at, ValueId output, Phase phase) const;
  void Note(const At& at, const std::string& recipe, const NdSbp& to, Phase phase, int64_t fires,
            int64_t bytes);

  const Graph& graph_;
  const Grid& grid_;
  const SbpAssignment& assignment_;
  BoxingPlanner* planner_;
  const Machine& machine_;
  TaskGraph* tasks_;
  std::map<Key, Values> values_;
  std::string reader_;
  int64_t position_ = 0, sequence_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_LOWER_H_
