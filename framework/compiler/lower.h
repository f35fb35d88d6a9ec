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

// Tasks of the representatives, which read values of representatives alone; `classes` are split
// until they hold for this graph. Where they represent other devices, boxings read each value once
// and have no regions. Errors: a boxing that cannot be done, with the tensor's name.
absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine, DeviceClasses* classes);
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
        tasks_(tasks),
        differences_(classes.num_devices()) {}

  // One value per represented device of the stage, in the order of DeviceClasses::members.
  using Values = std::vector<ValueId>;
  absl::StatusOr<Values> Get(TensorId tensor, const NdSbp& wanted, int32_t stage, Phase phase);
  void Put(TensorId tensor, const NdSbp& sbp, int32_t stage, Values values);
  // New values of a layout, without producer.
  Values Make(TensorId tensor, const NdSbp& sbp, int32_t stage, int64_t tokens);
  ValueId Add(Value value);
  TaskId Add(Task task);  // sets the producer of its outputs
  int64_t NextPosition() { return ++position_; }
  // By device: what it was found to do otherwise than others of its class.
  absl::Span<const uint64_t> differences() const { return differences_; }
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
  Values EmitBoxing(const At& at, const Boxing& boxing, const NdSbp& wanted, int32_t stage,
                    Phase phase);
  // What representatives do in a boxing, and of whom they read: buffers of representatives, each
  // once.
  struct Outline {
    struct Write {
      const BoxingWrite* write;
      std::vector<int> reads;
      int64_t bytes, wire_bytes;
    };
    std::vector<std::vector<Write>> steps;
    bool holds = true;  // do devices of one class do the same?
  };
  const Outline& OutlineOf(const Boxing& boxing, const At& at, int32_t stage);
  bool CheckRoles(const Boxing& boxing, const At& at, std::vector<std::pair<int, int>>* roles);
  bool CheckAxes(const Boxing& boxing, int32_t from_stage, int32_t to_stage);
  void Differ(int32_t device, uint64_t signature);
  void EmitWrite(const At& at, const Boxing& boxing, const BoxingWrite& write,
                 const Outline::Write* outline, int64_t tokens, Phase phase,
                 std::vector<ValueId>* buffers);
  void AddRegions(const Boxing& boxing, const BoxingWrite& write,
                  const std::vector<ValueId>& buffers, Task* task) const;
  ValueId BufferValue(const At& at, const BoxingBuffer& buffer, int64_t tokens);
  bool ReadInPlace(const Boxing& boxing, const BoxingWrite& write,
                   const std::vector<ValueId>& buffers);
  bool Outlined() const { return classes_.num_classes() < classes_.num_devices(); }
  void CheckExtents(const NdSbp& sbp, const TensorType& type, int32_t stage);
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
  std::vector<uint64_t> differences_;  // 0: none
  std::map<const Boxing*, Outline> outlines_;
  std::map<Key, Values> values_;
  std::string reader_;
  int64_t position_ = 0, sequence_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_LOWER_H_
