#include "framework/compiler/decisions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

void AddOptions(const CompileOptions& options, DecisionRoll* roll) {
  roll->Add("mesh", options.mesh.ToString());
  roll->Add("devices of ranks",
            absl::StrJoin(options.mesh.devices(), " ", [](std::string* out, DeviceId id) {
              absl::StrAppend(out, ToString(id));
            }));
  roll->Add("links", options.machine.LinksText());
  roll->Add("figures of the machine", options.machine.ToString());
  roll->Add("micro-batches", absl::StrCat(options.micro_batches));
  roll->Add("chunks", absl::StrCat(options.chunks));
  roll->Add("script length", absl::StrCat(options.script_length));
  roll->Add("fuse", absl::StrCat(options.fuse));
  roll->Add("collectives of NCCL", absl::StrCat(options.collectives.nccl));
  roll->Add("sums of bf16", absl::StrCat(options.collectives.bf16_sums));
}

void AddSelection(const CompiledProgram& program, DecisionRoll* roll) {
  const auto layouts = [&](const auto& sbps) {
    return absl::StrJoin(sbps, ", ", [&](std::string* out, const GridSbp& sbp) {
      absl::StrAppend(out, program.grid.ToString(sbp));
    });
  };
  for (const Node& node : program.graph->nodes()) {
    const Choice& choice = program.assignment.choices[node.id];
    std::string decided =
        absl::StrCat(node.op->name, " ", PrintAttributes(node.attributes), " ", node.stage, " (",
                     layouts(choice.inputs), ") -> ", layouts(choice.outputs));
    for (const TensorId output : node.outputs) {
      const TensorType& type = program.graph->tensor(output).type;
      absl::StrAppend(&decided, " ", DTypeName(type.dtype), type.shape.ToString(), " ",
                      program.grid.ToString(program.assignment.produced[output]), " ",
                      program.grid.ToString(program.assignment.consumed[output]));
    }
    roll->Add(absl::StrCat("signature of ", program.name, ", ", node.name), decided);
  }
}

void AddBoxings(const CompiledProgram& program, DecisionRoll* roll) {
  for (const BoxingNote& note : program.tasks.boxings) {
    roll->Add(absl::StrCat("boxing of ", program.name, ", ", note.tensor),
              absl::StrCat(note.recipe, " ", note.from, " -> ", note.to, " ", note.reader, " ",
                           note.firings, " ", note.bytes));
  }
}

}  // namespace

DecisionRoll AddDecisions(const CompileOptions& options, absl::Span<const CompiledProgram> programs,
                          plan::Plan* plan) {
  DecisionRoll roll(plan);
  if (options.ranks == 1) return roll;
  AddOptions(options, &roll);
  for (const CompiledProgram& program : programs) AddSelection(program, &roll);
  for (const CompiledProgram& program : programs) AddBoxings(program, &roll);
  return roll;
}

void AddPlaced(const CompileOptions& options, const plan::Program& placed, DecisionRoll* roll) {
  if (options.ranks == 1) return;
  for (const plan::Register& reg : placed.registers()) {
    roll->Add(absl::StrCat("register of ", placed.name(), ", ", reg.name()),
              absl::StrCat(reg.device(), " ", reg.number(), " ", reg.quota(), " ", reg.bytes(), " ",
                           absl::StrJoin(reg.slot_offsets(), " ")));
  }
  std::string edges;
  const auto add_point = [&edges](const plan::Point& point) {
    absl::StrAppend(&edges, point.actor(), " ", point.firing(), " ", point.instruction(), " ");
  };
  for (const plan::ReuseEdge& edge : placed.reuse_edges()) {
    add_point(edge.after());
    add_point(edge.before());
    absl::StrAppend(&edges, edge.wraps(), "\n");
  }
  roll->Add(absl::StrCat("reuse edges of ", placed.name()), edges);
  for (int s = 0; s < placed.streams_size(); ++s) {
    std::string order;
    for (const plan::ScheduleEntry& entry : placed.streams(s).order()) {
      absl::StrAppend(&order, entry.actor(), " ", entry.firing(), " ", entry.from(), " ",
                      entry.to(), "\n");
    }
    roll->Add(absl::StrCat("order of ", placed.name(), ", stream ", s), order);
  }
}

}  // namespace sluice
