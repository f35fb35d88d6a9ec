#include "framework/compiler/emit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hash.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/compiler/join_calls.h"
#include "framework/compiler/lower.h"
#include "framework/compiler/order_tasks.h"
#include "framework/compiler/pulls.h"
#include "framework/compiler/transfers.h"
#include "framework/sim/prediction.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace sluice {
namespace {

// Representatives were placed as if each had cores of its own; where all devices lie in one
// process, whose cores a calibrated machine knows, they share them.
absl::Status PredictSharedCores(const Machine& machine, const CompileOptions& options,
                                const plan::Plan& plan, plan::Program* program) {
  const int64_t devices = options.mesh.num_devices();
  if (machine.cores == 0 || plan.representatives_only() || DevicesOfARank(options.mesh) < devices) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const WorkerClockResult run, PredictSteps(*program, static_cast<int>(devices),
                                                             machine, /*steps=*/4, options.stop));
  program->set_predicted_nanoseconds(run.step_nanoseconds);
  if (options.phase_end) options.phase_end("predict");
  return absl::OkStatus();
}

// What the representatives' program is on a rank's devices.
absl::StatusOr<plan::Program> EmitForRank(const Placed& placed, const Machine& machine,
                                          const CompileOptions& options,
                                          const DeviceClasses& classes, BoxingPlanner* planner,
                                          CompiledProgram* program) {
  const auto phase_ends = [&](absl::string_view phase) {
    if (options.phase_end) options.phase_end(phase);
  };
  ASSIGN_OR_RETURN(program->tasks,
                   Lower(*program->graph, program->grid, program->assignment, planner, machine,
                         DeviceClasses::OfRank(program->grid, options.rank, options.ranks > 1),
                         options.collectives, options.stop));
  if (options.fuse) JoinCalls(*program->graph, options.mesh, &program->tasks);
  OrderTasks(options.mesh, &program->tasks);
  phase_ends("lower rank");
  RETURN_IF_ERROR(Observe(options, program->name, &program->tasks));
  ScheduleOptions schedule;
  schedule.script_length = options.script_length;
  schedule.numbers = options.ranks > 1;
  schedule.stop = options.stop;
  ASSIGN_OR_RETURN(Schedule own,
                   BuildSchedule(program->name, program->tasks, program->grid, schedule));
  program->actor_of = own.actor_of;
  if (!options.reasons) program->tasks = TaskGraph();  // of a large job as much as the plan
  own = AddPulls(std::move(own));
  phase_ends("schedule rank");
  RETURN_IF_ERROR(CheckStop(options.stop));
  RETURN_IF_ERROR(Observe(options, program->name, &own));
  ASSIGN_OR_RETURN(RankProgram expanded,
                   ExpandPlaced(placed, classes.representatives(), std::move(own),
                                options.phase_end, options.stop));
  program->staging = std::move(expanded.staging);
  return std::move(expanded.program);
}

// Of several ranks: what no program can be compiled for.
absl::Status CheckKinds(const CompileOptions& options) {
  const std::vector<DeviceId>& ids = options.mesh.devices();
  const auto is_host = [](DeviceId id) { return IsHost(id.kind); };
  if (options.ranks == 1 || std::all_of(ids.begin(), ids.end(), is_host)) return absl::OkStatus();
  const Grid grid(options.mesh, 1);
  for (int64_t stage = 0; stage < grid.num_stages(); ++stage) {
    const std::vector<DeviceId>& of_stage = grid.stage(stage).devices();
    for (const DeviceId id : of_stage) {
      if (id.kind == of_stage[0].kind) continue;
      return absl::UnimplementedError(absl::StrCat(
          "mesh: expected devices of one kind in a stage of several ranks, got ",
          DeviceKindName(of_stage[0].kind), " and ", DeviceKindName(id.kind), " in stage ", stage));
    }
  }
  return absl::OkStatus();
}

// The hosts of the classes, in their order; each a CPU that its rank has not yet.
void AddHostOfEach(const Mesh& mesh, const DeviceClasses& classes, plan::Plan* plan) {
  std::map<int32_t, int32_t> cpus;  // by rank
  for (const DeviceId id : mesh.devices()) {
    if (IsHost(id.kind)) cpus[id.rank] = std::max(cpus[id.rank], id.local + 1);
  }
  for (int32_t d = 0; d < static_cast<int32_t>(mesh.num_devices()); ++d) {
    if (classes.host(d) == d) continue;
    SLUICE_CHECK(classes.host(d) == plan->devices_size()) << "host of device " << d;
    plan::Device* host = plan->add_devices();
    host->set_rank(mesh.devices()[d].rank);
    host->set_local(cpus[host->rank()]++);
  }
}

// Hashes what is written to it, and takes no more once it is told to stop: the serialized plan of a
// large job is hundreds of MiB, which are neither held nor written to the end if nobody wants them.
class HashedOutput final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  explicit HashedOutput(const Stop& stop) : stop_(stop), block_(1 << 16) {}

  bool Next(void** data, int* size) override {
    if (!CheckStop(stop_).ok()) return false;
    Flush();
    *data = block_.data();
    used_ = *size = static_cast<int>(block_.size());
    return true;
  }
  void BackUp(int count) override { used_ -= count; }
  int64_t ByteCount() const override { return hashed_ + used_; }

  uint64_t Digest() {
    Flush();
    return hasher_.digest();
  }

 private:
  void Flush() {
    hasher_.Add(block_.data(), used_);
    hashed_ += used_;
    used_ = 0;
  }

  const Stop& stop_;
  std::vector<char> block_;
  int used_ = 0;  // of the block
  int64_t hashed_ = 0;
  StableByteHasher hasher_;
};

}  // namespace

absl::Status CheckCount(absl::string_view what, int64_t count) {
  constexpr int64_t kMost = int64_t{1} << 20;  // firings of a step, stages: all are of int32_t
  if (count >= 1 && count <= kMost) return absl::OkStatus();
  if (count < 1) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected at least 1, got ", count));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": expected at most ", kMost, ", got ", count));
}

absl::Status CheckOptions(const CompileOptions& options) {
  RETURN_IF_ERROR(CheckCount("micro_batches", options.micro_batches));
  RETURN_IF_ERROR(CheckCount("chunks", options.chunks));
  if (options.rank < 0 || options.rank >= options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: expected one of 0 to ", options.ranks - 1, ", got ", options.rank));
  }
  for (DeviceId id : options.mesh.devices()) {
    if (id.rank >= options.ranks && !options.representatives_only) {
      return absl::InvalidArgumentError(absl::StrCat("mesh: expected devices of ranks 0 to ",
                                                     options.ranks - 1, ", got one of ", id.rank));
    }
    const auto known = static_cast<int32_t>(options.machine.host_of_rank.size());
    if (known > 0 && id.rank >= known) {
      return absl::InvalidArgumentError(
          absl::StrCat("machine: expected a host for each rank of "
                       "the mesh, got ",
                       known, " hosts, and rank ", id.rank));
    }
  }
  return CheckKinds(options);
}

int64_t DevicesOfARank(const Mesh& mesh) {
  return std::count_if(mesh.devices().begin(), mesh.devices().end(),
                       [&](DeviceId id) { return id.rank == mesh.devices()[0].rank; });
}

Compilation EmptyCompilation(const CompileOptions& options) {
  plan::Plan plan;
  for (DeviceId id : options.mesh.devices()) {
    plan::Device* device = plan.add_devices();
    device->set_rank(id.rank);
    device->set_local(id.local);
    device->set_kind(static_cast<plan::DeviceKind>(id.kind));
  }
  plan.set_representatives_only(true);
  plan.set_rank(options.rank);
  const Grid grid(options.mesh, 1, options.chunks);
  DeviceClasses classes(grid, options.ranks > 1);
  if (classes.through_hosts()) {
    AddHostOfEach(options.mesh, classes, &plan);
  } else if (NeedsTransfers(plan)) {
    AddHostDevices(&plan);
    classes = DeviceClasses::Singles(grid);
  }
  return {std::move(plan), options.mesh, std::move(classes), {}};
}

ScheduleOptions ScheduleOptionsOf(const CompileOptions& options, const DeviceClasses& classes) {
  ScheduleOptions schedule;
  schedule.script_length = options.script_length;
  schedule.numbers = options.ranks > 1;
  schedule.stop = options.stop;
  schedule.outline = options.representatives_only || schedule.numbers ||
                     classes.num_classes() < classes.num_devices();
  return schedule;
}

std::vector<int64_t> BytesOfVariables(const plan::Plan& plan, const DeviceClasses& classes) {
  std::vector<int64_t> bytes;
  for (int d = 0; d < plan.devices_size(); ++d) {
    bytes.push_back(plan.devices(classes.representative(d)).variable_bytes());
  }
  return bytes;
}

absl::Status Observe(const CompileOptions& options, absl::string_view program,
                     const Station& station) {
  return options.observe ? options.observe(program, station) : absl::OkStatus();
}

absl::Status EmitPrograms(std::vector<Placed> placed, const Machine& machine,
                          const CompileOptions& options, BoxingPlanner* planner,
                          Compilation* compilation) {
  const DeviceClasses& classes = compilation->classes;
  plan::Plan* plan = &compilation->plan;
  const bool as_placed = plan->representatives_only() ||
                         (options.ranks == 1 && classes.num_classes() == classes.num_devices());
  for (size_t p = 0; p < placed.size(); ++p) {
    CompiledProgram& program = compilation->programs[p];
    absl::StatusOr<plan::Program> emitted =
        as_placed ? std::move(placed[p].program)
                  : EmitForRank(placed[p], machine, options, classes, planner, &program);
    absl::Status status = emitted.status();
    if (status.ok()) status = PredictSharedCores(machine, options, *plan, &*emitted);
    RETURN_IF_ERROR(AddContext(status, absl::StrCat("program ", program.name)));
    placed[p] = Placed();
    *plan->add_programs() = *std::move(emitted);
  }
  return absl::OkStatus();
}

void CountMemory(absl::Span<const int64_t> base, Compilation* compilation) {
  plan::Plan& plan = compilation->plan;
  for (int d = 0; d < plan.devices_size(); ++d) {
    int64_t packed = 0;
    for (const CompiledProgram& program : compilation->programs) {
      const int64_t staging = program.staging.empty() ? 0 : program.staging[d];
      packed =
          std::max(packed, program.packed[compilation->classes.representative(d)].packed + staging);
    }
    plan.mutable_devices(d)->set_variable_bytes(base[d]);
    plan.mutable_devices(d)->set_memory_bytes(base[d] + packed);
  }
}

absl::Status SetDigest(const Stop& stop, plan::Plan* plan) {
  plan->clear_digest();
  HashedOutput output(stop);
  if (!plan->SerializeToZeroCopyStream(&output)) {
    RETURN_IF_ERROR(CheckStop(stop));
    return absl::ResourceExhaustedError("the plan: expected to serialize to at most 2 GiB");
  }
  plan->set_digest(HashText(output.Digest()));
  return absl::OkStatus();
}

}  // namespace sluice
