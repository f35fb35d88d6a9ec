#include "framework/compiler/compile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/check_programs.h"
#include "framework/compiler/cut_losses.h"
#include "framework/compiler/decisions.h"
#include "framework/compiler/emit.h"
#include "framework/compiler/fuse.h"
#include "framework/compiler/fuse_on_cards.h"
#include "framework/compiler/join_calls.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/make_again.h"
#include "framework/compiler/order_tasks.h"
#include "framework/compiler/schedule.h"
#include "framework/compiler/transfers.h"
#include "framework/compiler/variables.h"
#include "framework/ops/all_ops.h"
#include "framework/passes/cut_stages.h"

namespace sluice {
namespace {

// As if all devices were of one process. What is computed where decides in which order sums are
// added up, and so bits, which are those of one process however devices are dealt over ranks and
// hosts. How tensors move changes no bit, and goes by the links that there are.
Machine OfOneProcess(Machine machine) {
  machine.host_of_rank.clear();
  machine.devices_per_host = Machine().devices_per_host;
  machine.links.fill(machine.link(LinkKind::kProcess));
  return machine;
}

// The first program fixes the layout of the variables that it has, so programs come in order.
absl::StatusOr<std::vector<CompiledProgram>> SelectAll(absl::Span<const ProgramGraph> programs,
                                                       const CompileOptions& options,
                                                       const Machine& machine) {
  BoxingPlanner planner(machine);
  VariableLayouts layouts;
  std::vector<CompiledProgram> selected;
  for (const ProgramGraph& program : programs) {
    const std::string where = absl::StrCat("program ", program.name);
    RETURN_IF_ERROR(AddContext(program.graph->status(), where));
    const int64_t default_micro = selected.empty() ? options.micro_batches : 1;
    const int64_t micro = program.micro_batches != 0 ? program.micro_batches : default_micro;
    RETURN_IF_ERROR(AddContext(CheckCount("micro_batches", micro), where));
    Grid grid(options.mesh, micro, options.chunks);
    auto graph = RunPasses(*program.graph, {CutStages(grid.num_stages())});
    RETURN_IF_ERROR(AddContext(graph.status(), where));
    auto assignment = SelectSbp(**graph, grid, &planner, machine, &layouts, options.stop);
    RETURN_IF_ERROR(AddContext(assignment.status(), where));
    // Sampling one sequence on data=2 splits nothing and means to; a first program does not.
    if (selected.empty()) {
      for (const std::string& warning : assignment->warnings) SLUICE_LOG(WARNING) << warning;
    }
    FusedProgram chosen = {*std::move(graph), *std::move(assignment)};
    if (options.fuse) {
      auto fused = Fuse(*chosen.graph, chosen.assignment);
      RETURN_IF_ERROR(AddContext(fused.status(), where));
      chosen = *std::move(fused);
      auto cut = CutLosses(*chosen.graph, chosen.assignment, grid, options.largest_logits);
      RETURN_IF_ERROR(AddContext(cut.status(), where));
      chosen = *std::move(cut);
      auto products = FuseOnCards(*chosen.graph, chosen.assignment, grid);
      RETURN_IF_ERROR(AddContext(products.status(), where));
      chosen = *std::move(products);
      auto again = MakeAgain(*chosen.graph, chosen.assignment, grid);
      RETURN_IF_ERROR(AddContext(again.status(), where));
      chosen = *std::move(again);
    }
    selected.push_back({program.name,
                        std::move(chosen.graph),
                        std::move(grid),
                        std::move(chosen.assignment),
                        {},
                        {},
                        {},
                        {}});
    if (options.phase_end) options.phase_end("select");
  }
  return selected;
}

absl::Status LowerAll(const CompileOptions& options, const Machine& machine, BoxingPlanner* planner,
                      Compilation* compilation) {
  for (CompiledProgram& program : compilation->programs) {
    auto tasks = Lower(*program.graph, program.grid, program.assignment, planner, machine,
                       compilation->classes, options.collectives, options.stop);
    RETURN_IF_ERROR(AddContext(tasks.status(), absl::StrCat("program ", program.name)));
    program.tasks = *std::move(tasks);
    if (options.fuse) JoinCalls(*program.graph, options.mesh, &program.tasks);
    OrderTasks(options.mesh, &program.tasks);
  }
  return absl::OkStatus();
}

bool IsNamedInPlace(absl::string_view name, size_t input) {
  const OpDef* const op = FindOp(name);
  return op != nullptr && IsInPlace(*op, input);
}

// From the tasks of a program to its order and bytes, on the devices that represent the others.
absl::StatusOr<Placed> PlaceTasks(const CompileOptions& options, const Machine& machine,
                                  const PackingOptions& packing, const Compilation& compilation,
                                  CompiledProgram* program) {
  RETURN_IF_ERROR(Observe(options, program->name, &program->tasks));
  ASSIGN_OR_RETURN(Schedule schedule,
                   BuildSchedule(program->name, program->tasks, program->grid,
                                 ScheduleOptionsOf(options, compilation.classes)));
  program->actor_of = schedule.actor_of;
  if (NeedsTransfers(compilation.plan) && !compilation.classes.through_hosts()) {
    ASSIGN_OR_RETURN(schedule, StageTransfers(compilation.plan, machine, std::move(schedule)));
  }
  if (options.phase_end) options.phase_end("schedule");
  RETURN_IF_ERROR(Observe(options, program->name, &schedule));
  ASSIGN_OR_RETURN(Ordered ordered,
                   OrderProgram(std::move(schedule), options.phase_end, options.stop));
  RETURN_IF_ERROR(Observe(options, program->name, &ordered));
  ASSIGN_OR_RETURN(Placed placed, PlaceProgram(std::move(ordered), packing, options.phase_end));
  RETURN_IF_ERROR(Observe(options, program->name, &placed));
  program->packed = placed.devices;
  return placed;
}

}  // namespace

absl::StatusOr<Compilation> Compile(absl::Span<const ProgramGraph> programs,
                                    const CompileOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckPrograms(programs, options.mesh));
  for (const std::string& line : MisspeltAnnotations(programs, options.mesh)) {
    SLUICE_LOG(WARNING) << line;
  }
  const Machine machine = options.machine.ForDevices(DevicesOfARank(options.mesh));
  Compilation out = EmptyCompilation(options);
  ASSIGN_OR_RETURN(out.programs, SelectAll(programs, options, OfOneProcess(machine)));
  RETURN_IF_ERROR(CheckCaches(out.programs));
  BoxingPlanner planner(machine);
  RETURN_IF_ERROR(LowerAll(options, machine, &planner, &out));
  DecisionRoll decisions = AddDecisions(options, out.programs, &out.plan);
  if (options.phase_end) options.phase_end("lower");
  AddVariables(&out);
  // Programs run one at a time, so their bytes overlap above the variables.
  const std::vector<int64_t> base = BytesOfVariables(out.plan, out.classes);
  const PackingOptions packing = {
      base, AlignmentOf(out.plan), {IsNamedInPlace, options.least_taken}, options.stop};
  std::vector<Placed> placed;
  for (CompiledProgram& program : out.programs) {
    auto added = PlaceTasks(options, machine, packing, out, &program);
    RETURN_IF_ERROR(AddContext(added.status(), absl::StrCat("program ", program.name)));
    AddPlaced(options, added->program, &decisions);
    placed.push_back(*std::move(added));
  }
  CountMemory(base, &out);
  const bool fits = !options.fits || options.fits(out.plan);
  if (fits && !options.representatives_only) {
    out.plan.set_representatives_only(false);
    AddVariables(&out);
  }
  RETURN_IF_ERROR(EmitPrograms(std::move(placed), machine, options, &planner, &out));
  CountMemory(base, &out);
  RETURN_IF_ERROR(SetDigest(options.stop, &out.plan));
  if (options.phase_end) options.phase_end("digest");
  return out;
}

absl::StatusOr<plan::Plan> CompilePlan(absl::Span<const ProgramGraph> programs,
                                       const CompileOptions& options) {
  CompileOptions plan_alone = options;
  plan_alone.reasons = false;
  ASSIGN_OR_RETURN(Compilation compilation, Compile(programs, plan_alone));
  return std::move(compilation.plan);
}

}  // namespace sluice
