// Lowers a graph with its SBP assignment to tasks: one per op and represented device, boxing over
// time and space between. An op fires once per micro-batch iff one of its operands is not B over
// time.
#ifndef SLUICE_FRAMEWORK_COMPILER_LOWER_H_
#define SLUICE_FRAMEWORK_COMPILER_LOWER_H_

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/stop.h"
#include "framework/compiler/device_classes.h"
#include "framework/compiler/grid.h"
#include "framework/compiler/select_sbp.h"
#include "framework/compiler/task_graph.h"
#include "framework/sbp/phase_collective.h"

namespace sluice {

// Which boxings become collectives of NCCL, of CUDA devices of any ranks; everything else is copies
// and folds, whose sums are those of the canonical tree, as a CPU has them.
struct CollectiveOptions {
  bool nccl = false;  // else none
  // Sums of bf16 are rounded to bf16 wherever NCCL adds. Else only those of two devices are
  // collectives, which are rounded once as a fold's are.
  bool bf16_sums = false;
};

// Tasks of the representatives, which read values of representatives alone; boxings have regions,
// whose sources are then not those of the device. Of a rank (DeviceClasses::OfRank): tasks of its
// devices, and a remote task for each edge between them and other ranks, an edge being what one
// item of one device reads of one other device. Errors: a boxing that cannot be done, with the
// tensor's name.
//
// What ranks call things. Every device of a stage has every item, in one order, so the place of an
// item in it names it on all of them: values are counted, group of stages by group (Value.number).
// Nothing is exchanged for that, as all ranks lower the same items.
//
// Where devices exchange things in the memory of hosts (DeviceClasses::through_hosts), a boxing
// that reads other devices runs on hosts from there on, unless a collective does it or devices of
// one rank copy from each other: copies bring them what the devices have, and back what has come of
// it. What the host feeds and fetches lies there, too.
absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine, const DeviceClasses& classes,
                                const CollectiveOptions& collectives = {}, const Stop& stop = {});
// Tasks of all devices.
absl::StatusOr<TaskGraph> Lower(const Graph& graph, const Grid& grid,
                                const SbpAssignment& assignment, BoxingPlanner* planner,
                                const Machine& machine);

// The values of tensors by layout and stage; makes the boxing that a reader asks for, once.
class Boxer {
 public:
  Boxer(const Graph& graph, const Grid& grid, const SbpAssignment& assignment,
        BoxingPlanner* planner, const Machine& machine, const DeviceClasses& classes,
        const CollectiveOptions& collectives, TaskGraph* tasks)
      : graph_(graph),
        grid_(grid),
        assignment_(assignment),
        planner_(planner),
        machine_(machine),
        classes_(classes),
        collectives_(collectives),
        tasks_(tasks) {}

  // One value per represented device of the stage, in the order of DeviceClasses::members.
  using Values = std::vector<ValueId>;
  // The number of an item that makes no value there.
  int32_t NextNumber(int32_t stage) { return ++numbers_[stage % grid_.num_groups()]; }
  // `view` holds what `source` has from this many bytes on.
  void View(ValueId view, ValueId source, int64_t offset);
  // What device `place` of another rank holds of `values`, for an item of this one's.
  ValueId Foreign(const Values& values, int32_t stage, int64_t place, const Shard& shard,
                  int32_t reader);
  // An item of another rank's device reads `value`.
  void AddRemoteReader(ValueId value, int32_t device, int32_t stage, int32_t reader,
                       const Task& like);
  absl::StatusOr<Values> Get(TensorId tensor, const GridSbp& wanted, int32_t stage, Phase phase);
  void Put(TensorId tensor, const GridSbp& sbp, int32_t stage, Values values);
  // What `values` hold, in the memory of their devices' hosts; themselves where that is theirs.
  // `boxing`: that copies are part of (Task::boxing).
  Values OnHosts(const Values& values, Phase phase, int32_t boxing);
  // New values of a layout, without producer.
  Values Make(TensorId tensor, const GridSbp& sbp, int32_t stage, int64_t tokens);
  ValueId Add(Value value);
  TaskId Add(Task task);  // sets the producer of its outputs
  int64_t NextPosition() { return ++position_; }
  // Boxings from here on are made because this node asks for them.
  void set_reader(const std::string& reader) { reader_ = reader; }

 private:
  using Key = std::tuple<TensorId, GridSbp, int32_t>;
  struct At {  // where a tensor is while boxings bring it on
    TensorId tensor;
    GridSbp sbp;
    int32_t stage;
    Values values;
  };
  void ForgetGathered(TensorId tensor, const GridSbp& wanted, int32_t stage, Phase phase);
  absl::Status Feed(TensorId tensor, const GridSbp& sbp, int32_t stage);
  absl::Status OverTime(At* at, Sbp wanted, Phase phase);
  void Retime(At* at, const GridSbp& to, absl::string_view recipe, int64_t tokens, Phase phase,
              absl::FunctionRef<void(const Shard& source, const Shard& target, Task* task)> fill);
  void Accumulate(At* at);
  void Pack(At* at, const GridSbp& to, Phase phase);
  void SliceTime(At* at, Sbp wanted, Phase phase);
  absl::Status OverSpace(At* at, const GridSbp& wanted, int32_t stage, Phase phase);
  Values EmitBoxing(const At& at, const SymbolicBoxing& boxing, const GridSbp& wanted,
                    int32_t stage, Phase phase);
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
    bool on_hosts = false;
    const BoxingPhase& symbolic() const { return boxing.phases[phase_index]; }
    const PhaseStepLoad& load() const { return boxing.loads[phase_index].steps[step]; }
    bool reads_others() const { return load().near + load().far + load().messages > 0; }
    bool last() const;  // of the boxing
  };
  Values EmitStep(const PhaseStep& step, const Values& held, const Values& made);
  // Where the values of a step go, one a device of the stage: `made`, or a buffer between two.
  Values OutputsOf(const PhaseStep& step, const Values& made);
  std::optional<PhaseCollective> FindCollective(const PhaseStep& step) const;
  Values EmitCollective(const PhaseStep& step, const PhaseCollective& collective,
                        const Values& held, const Values& made);
  void ReadInPlace(const PhaseStep& step, const Values& held, const Values& outputs);
  bool FollowsCompute(const PhaseStep& step, const Values& held) const;
  void EmitWrite(const PhaseStep& step, const Values& held, int32_t place, ValueId output,
                 plan::StreamKind stream);
  void EmitShadow(const PhaseStep& step, const Values& held, ValueId output,
                  plan::StreamKind stream);
  void AddRegions(const PhaseStep& step, const Values& held, int32_t place, const PhaseWrite& write,
                  Task* task);
  ValueId SourceOf(const PhaseStep& step, const Values& held, int64_t place, int32_t reader);
  void AddRemoteReaders(const PhaseStep& step, const Values& held, int32_t reader);
  ValueId BufferValue(const PhaseStep& step, int32_t place, int32_t number);
  // Of what is no part of a script and makes `output`, which moves bytes.
  plan::StreamKind StreamOf(ValueId output) const;
  bool CopiesInRanks(const PhaseStep& step) const;
  Values HostsOf(const Values& values);
  void CopyTo(const Values& from, const Values& to, Phase phase, int32_t boxing);
  int64_t OffsetAt(ValueId value, int64_t place) const;
  Task FoldTask(const At& at, ValueId output, Phase phase) const;
  void Note(const At& at, const std::string& recipe, const GridSbp& to, Phase phase,
            int64_t firings, int64_t bytes, int64_t between_hosts);

  const Graph& graph_;
  const Grid& grid_;
  const SbpAssignment& assignment_;
  BoxingPlanner* planner_;
  const Machine& machine_;
  const DeviceClasses& classes_;
  const CollectiveOptions collectives_;
  TaskGraph* tasks_;
  std::map<Key, Values> values_;
  std::map<ValueId, ValueId> on_hosts_;  // of a device's value: what its host has of it
  std::map<Key, Phase> gathered_in_;     // of variables: the phase that made what `values_` has
  // Views that begin elsewhere on each device: the step that they stand for.
  struct SlicedView {
    BoxingPhase phase;
    Shape shape;
    int64_t element_bytes = 0;
  };
  std::map<ValueId, SlicedView> sliced_;
  std::vector<int32_t> numbers_ = std::vector<int32_t>(grid_.num_groups(), 0);
  std::string reader_;
  int64_t position_ = 0, sequence_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMPILER_LOWER_H_
