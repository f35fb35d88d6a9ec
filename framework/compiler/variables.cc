#include "framework/compiler/variables.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/compiler/memory.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

plan::Variable Describe(const Node& node, const TensorInfo& info, const Grid& grid,
                        const GridSbp& sbp, int32_t stage) {
  plan::Variable variable;
  variable.set_name(node.name);
  variable.set_init(PrintAttributes(node.attributes));
  variable.set_dtype(static_cast<int32_t>(info.type.dtype));
  for (int64_t extent : info.type.shape) variable.add_shape(extent);
  variable.set_layout(absl::StrCat("stage ", stage, ", ", grid.ToString(sbp)));
  return variable;
}

bool IsReplica(const Mesh& mesh, const NdSbp& space, int64_t device) {
  const std::vector<int64_t> coordinates = mesh.Coordinates(device);
  for (size_t a = 0; a < space.size(); ++a) {
    if (!space[a].is_split() && coordinates[a] != 0) return true;
  }
  return false;
}

// `wanted`: the devices that the plan holds.
void AddVariablesOf(const CompiledProgram& program, const DeviceClasses& classes,
                    absl::FunctionRef<bool(int32_t device)> wanted, plan::Plan* plan) {
  const Graph& graph = *program.graph;
  const Grid& grid = program.grid;
  std::set<std::string> known;
  for (const plan::Variable& variable : plan->variables()) known.insert(variable.name());
  // By stage: its devices that count, as places in it. A thousand devices and variables, of which
  // one device is wanted, are not to be gone through pair by pair.
  std::vector<std::vector<int64_t>> counted(grid.num_stages());
  for (int64_t stage = 0; stage < grid.num_stages(); ++stage) {
    for (int64_t i = 0; i < grid.stage(stage).num_devices(); ++i) {
      const int32_t d = grid.DeviceIndex(stage, i);
      if (wanted(d) || classes.representative(d) == d) counted[stage].push_back(i);
    }
  }
  const int64_t alignment = AlignmentOf(*plan);
  for (NodeId id : graph.variables()) {
    const Node& node = graph.node(id);
    if (graph.tensor(node.outputs[0]).role == Role::kCache) continue;
    if (!known.insert(node.name).second) continue;
    const TensorInfo& info = graph.tensor(node.outputs[0]);
    const GridSbp& sbp = program.assignment.produced[node.outputs[0]];
    const int32_t stage = std::max(node.stage, 0);
    plan::Variable* variable = plan->add_variables();
    *variable = Describe(node, info, grid, sbp, stage);
    for (int64_t i : counted[stage]) {
      const int32_t d = grid.DeviceIndex(stage, i);
      const Shard shard = grid.ShardAt(sbp, info.type, stage, i);
      plan::Device* device = plan->mutable_devices(d);
      if (wanted(d)) {
        plan::VariableShard* added = variable->add_shards();
        added->set_device(d);
        *added->mutable_shard() = ShardToProto(shard);
        added->set_offset(device->variable_bytes());
        added->set_replica(IsReplica(grid.stage(stage), sbp.space, i));
      }
      device->set_variable_bytes(AlignUp(device->variable_bytes() + shard.NumBytes(), alignment));
    }
  }
}

// By name: type and layout.
using Caches = std::map<std::string, std::string>;

absl::StatusOr<Caches> CachesOf(const CompiledProgram& program) {
  const Graph& graph = *program.graph;
  std::set<TensorId> written;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (InputPort(*node.op, i).updates) written.insert(node.inputs[i]);
    }
  }
  Caches caches;
  for (NodeId id : graph.variables()) {
    const Node& node = graph.node(id);
    const TensorId tensor = node.outputs[0];
    if (graph.tensor(tensor).role != Role::kCache) continue;
    if (written.count(tensor) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cache ", node.name, ": expected an op that writes to it, got none"));
    }
    const int32_t stage = std::max(node.stage, 0);
    caches[node.name] = absl::StrCat(
        ToString(graph.tensor(tensor).type), " stage ", stage, ", ",
        ToString(program.assignment.produced[tensor].space, program.grid.stage(stage)));
  }
  return caches;
}

}  // namespace

absl::Status CheckCaches(absl::Span<const CompiledProgram> programs) {
  Caches first;
  std::string name;  // of the first program that has some
  for (const CompiledProgram& program : programs) {
    const std::string where = absl::StrCat("program ", program.name);
    auto caches = CachesOf(program);
    RETURN_IF_ERROR(AddContext(caches.status(), where));
    if (caches->empty()) continue;
    if (first.empty()) {
      first = *std::move(caches);
      name = program.name;
      continue;
    }
    if (*caches == first) continue;
    const auto text = [](const Caches& of) {
      return absl::StrJoin(of, "; ", absl::PairFormatter(" "));
    };
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected the caches of program ", name,
                                                   ", ", text(first), "; got ", text(*caches)));
  }
  return absl::OkStatus();
}

void AddVariables(Compilation* compilation) {
  const DeviceClasses& classes = compilation->classes;
  plan::Plan* plan = &compilation->plan;
  plan->clear_variables();
  for (plan::Device& device : *plan->mutable_devices()) device.clear_variable_bytes();
  const auto wanted = [&](int32_t device) {
    return plan->representatives_only() ? classes.representative(device) == device
                                        : plan->devices(device).rank() == plan->rank();
  };
  for (const CompiledProgram& program : compilation->programs) {
    AddVariablesOf(program, classes, wanted, plan);
  }
}

}  // namespace sluice
