#include "framework/explain/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/selection_rules.h"
#include "framework/explain/placement.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

ExplainedOp OpOf(const Node& node, const Grid& grid, const Choice& choice) {
  ExplainedOp op;
  op.name = node.name;
  op.op = node.op->name;
  op.phase = node.phase;
  op.stage = std::max(node.stage, 0);
  op.forward = node.forward;
  op.inputs = node.inputs;
  op.outputs = node.outputs;
  if (choice.signatures.empty()) return op;
  for (const GridSbp& sbp : choice.inputs) op.reads.push_back(grid.ToString(sbp));
  op.signature = DescribeSignatures(choice, grid);
  op.nanoseconds = choice.nanoseconds;
  op.alternatives = choice.alternatives;
  const absl::Span<const LegalityRule> rules = SelectionRules();
  for (const Refusal& refusal : choice.refused) {
    op.refused.push_back({DescribeSignature(grid, refusal.axis, refusal.signature),
                          static_cast<int32_t>(refusal.rule - rules.data())});
  }
  for (size_t r = 0; r < rules.size(); ++r) {
    if (rules[r].gives_way > 0 && rules[r].gives_way <= choice.given_way) {
      op.gave_way.push_back(static_cast<int32_t>(r));
    }
  }
  return op;
}

std::vector<ExplainedBoxing> BoxingsOf(const TaskGraph& tasks) {
  std::vector<ExplainedBoxing> boxings;
  for (const BoxingNote& note : tasks.boxings) {
    boxings.push_back({note.tensor, note.recipe, note.from, note.to, note.reader, note.phase,
                       note.firings, note.bytes, note.between_hosts, 0});
  }
  std::map<std::pair<int32_t, int32_t>, int64_t> nanoseconds;  // by boxing and device
  for (const Task& task : tasks.tasks) {
    if (task.boxing < 0) continue;
    int64_t& of_device = nanoseconds[{task.boxing, task.device}];
    of_device += task.firings * task.nanoseconds;
    int64_t& most = boxings[task.boxing].nanoseconds;
    most = std::max(most, of_device);
  }
  return boxings;
}

ExplainedInstruction InstructionOf(const plan::Instruction& x) {
  ExplainedInstruction instruction;
  instruction.op = InstructionName(x);
  instruction.scope = x.scope();
  instruction.flops = x.flops();
  instruction.bytes = x.bytes();
  instruction.wire_bytes = x.wire_bytes();
  instruction.nanoseconds = x.nanoseconds();
  return instruction;
}

std::vector<ExplainedActor> ActorsOf(const TaskGraph& tasks, absl::Span<const int32_t> actor_of,
                                     const plan::Program& program) {
  std::vector<ExplainedActor> actors(program.actors_size());
  for (size_t a = 0; a < actors.size(); ++a) {
    const plan::Actor& actor = program.actors(static_cast<int>(a));
    actors[a].name = actor.name();
    actors[a].stream = actor.stream();
    actors[a].device = program.streams(actor.stream()).device();
    actors[a].firings = actor.firings_per_step();
    if (actor.script(0).kind() == plan::INSTRUCTION_BEGIN) {
      actors[a].script.push_back(InstructionOf(actor.script(0)));
    }
  }
  for (size_t t = 0; t < actor_of.size(); ++t) {
    const Task& task = tasks.tasks[t];
    ExplainedActor& actor = actors[actor_of[t]];
    const int at = static_cast<int>(actor.script.size());
    ExplainedInstruction instruction = InstructionOf(program.actors(actor_of[t]).script(at));
    instruction.node = task.node;
    instruction.boxing = task.boxing;
    instruction.phase = task.phase;
    actor.script.push_back(std::move(instruction));
  }
  // Transfers come of no task.
  for (size_t a = 0; a < actors.size(); ++a) {
    const plan::Actor& actor = program.actors(static_cast<int>(a));
    for (int i = static_cast<int>(actors[a].script.size()); i < actor.script_size(); ++i) {
      actors[a].script.push_back(InstructionOf(actor.script(i)));
    }
  }
  return actors;
}

// What selection and lowering decided.
ExplainedProgram ChoicesOf(const CompiledProgram& compiled, const plan::Program& program) {
  const Graph& graph = *compiled.graph;
  const Grid& grid = compiled.grid;
  const SbpAssignment& assignment = compiled.assignment;
  ExplainedProgram explained;
  explained.name = compiled.name;
  explained.micro_batches = grid.micro_batches();
  explained.warnings = assignment.warnings;
  for (TensorId t = 0; t < graph.num_tensors(); ++t) {
    const TensorInfo& info = graph.tensor(t);
    const Node& producer = graph.node(info.producer);
    explained.tensors.push_back({producer.outputs.size() == 1
                                     ? producer.name
                                     : absl::StrCat(producer.name, ":", info.output),
                                 ToString(info.type), grid.ToString(assignment.produced[t])});
  }
  for (const Node& node : graph.nodes()) {
    explained.ops.push_back(OpOf(node, grid, assignment.choices[node.id]));
  }
  explained.variables = graph.variables();
  explained.boxings = BoxingsOf(compiled.tasks);
  for (const Task& task : compiled.tasks.tasks) {
    if (!task.calls.empty()) explained.calls.push_back({task.device, task.op, task.calls});
  }
  explained.actors = ActorsOf(compiled.tasks, compiled.actor_of, program);
  for (const plan::Stream& stream : program.streams()) {
    explained.streams.push_back({stream.device(), std::string(StreamKindName(stream.kind())), {}});
  }
  return explained;
}

// The axes of each device, its rank, its host and its stage.
void ExplainDevices(const Mesh& mesh, const Machine& machine, Explanation* explanation) {
  explanation->mesh = mesh.ToString();
  for (int64_t d = 0; d < mesh.num_devices(); ++d) {
    const DeviceId id = mesh.devices()[d];
    std::string name = ToString(id);
    int64_t shards = mesh.num_devices(), at = d, stage = 0;
    for (const MeshAxis& axis : mesh.axes()) {
      shards /= axis.size;
      absl::StrAppend(&name, " ", axis.name, "=", at / shards);
      if (axis.kind == AxisKind::kStage) stage = at / shards;
      at %= shards;
    }
    absl::StrAppend(&name, ", rank ", id.rank, ", host ", machine.HostOf(id));
    explanation->devices.push_back(name);
    explanation->stage_of.push_back(static_cast<int32_t>(stage));
  }
}

// In the order of the plan: a variable is explained by the first program that has it.
std::vector<ExplainedVariable> VariablesOf(const Compilation& compilation) {
  std::vector<ExplainedVariable> variables;
  std::set<std::string> known;
  for (const CompiledProgram& program : compilation.programs) {
    const Graph& graph = *program.graph;
    for (NodeId id : graph.variables()) {
      const Node& node = graph.node(id);
      const TensorId tensor = node.outputs[0];
      if (graph.tensor(tensor).role == Role::kCache) continue;  // it lies among the activations
      if (!known.insert(node.name).second) continue;
      variables.push_back({node.name, ToString(graph.tensor(tensor).type),
                           program.grid.ToString(program.assignment.produced[tensor]),
                           std::max(node.stage, 0), graph.tensor(tensor).role == Role::kState});
    }
  }
  return variables;
}

}  // namespace

absl::StatusOr<Explanation> Explain(const Compilation& compilation, const Machine& machine) {
  Explanation explanation;
  explanation.representatives_only = compilation.plan.representatives_only();
  ExplainDevices(compilation.mesh, machine, &explanation);
  for (const LegalityRule& rule : SelectionRules()) {
    explanation.rules.push_back({std::string(rule.name), std::string(rule.reason)});
  }
  explanation.variables = VariablesOf(compilation);
  for (size_t p = 0; p < compilation.programs.size(); ++p) {
    const CompiledProgram& compiled = compilation.programs[p];
    const plan::Program& program = compilation.plan.programs(static_cast<int>(p));
    explanation.programs.push_back(ChoicesOf(compiled, program));
    RETURN_IF_ERROR(ExplainPlacement(compilation.plan, program, compiled.packed,
                                     compilation.classes, explanation.variables,
                                     &explanation.programs.back()));
  }
  return explanation;
}

}  // namespace sluice
