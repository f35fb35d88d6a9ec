#include "framework/compiler/explain.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%.1f us", static_cast<double>(nanoseconds) / 1000);
}

}  // namespace

std::string BoxingSummary(const TaskGraph& tasks) {
  std::string text;
  for (const BoxingNote& note : tasks.boxings) {
    absl::StrAppend(&text, PhaseName(note.phase), " ", note.tensor, ": ", note.recipe, " ",
                    note.from, " -> ", note.to, ", ", note.fires, " x ", note.bytes, " bytes\n");
  }
  return text;
}

std::string ExplainProgram(const std::string& name, const Graph& graph, const Grid& grid,
                           const SbpAssignment& assignment, const TaskGraph& tasks) {
  std::string text = absl::StrCat("program ", name, " on ", grid.mesh().ToString());
  if (grid.micro_batches() > 1) absl::StrAppend(&text, ", micro=", grid.micro_batches());
  absl::StrAppend(&text, "\n");
  for (const std::string& warning : assignment.warnings) {
    absl::StrAppend(&text, "warning: ", warning, "\n");
  }
  absl::StrAppend(&text, "variables\n");
  for (NodeId id : graph.variables()) {
    const Node& node = graph.node(id);
    absl::StrAppend(&text, "  ", node.name, " ", ToString(graph.tensor(node.outputs[0]).type),
                    "  stage ", std::max(node.stage, 0), "  ",
                    grid.ToString(assignment.made[node.outputs[0]]), "\n");
  }
  absl::StrAppend(&text, "ops: signature, time a step, what else was legal\n");
  for (const Node& node : graph.nodes()) {
    const Choice& choice = assignment.choices[node.id];
    if (choice.signatures.empty()) continue;
    absl::StrAppend(&text, "  ", node.name, " (", PhaseName(node.phase), ", stage ",
                    std::max(node.stage, 0), "): ", DescribeSignatures(choice, grid), "  ",
                    Microseconds(choice.nanoseconds));
    if (choice.alternatives.size() > 1) {
      absl::StrAppend(&text, "  not");
      for (const auto& other : choice.alternatives) {
        if (other.first == DescribeSignatures(choice, grid)) continue;
        absl::StrAppend(&text, " [", other.first, " ", Microseconds(other.second), "]");
      }
    }
    absl::StrAppend(&text, "\n");
  }
  int64_t bytes = 0;
  for (const BoxingNote& note : tasks.boxings) bytes += note.fires * note.bytes;
  absl::StrAppend(&text, "boxings: ", tasks.boxings.size(), ", ", bytes,
                  " bytes a step between devices\n", BoxingSummary(tasks));
  return text;
}

std::string ExplainMemory(const plan::Program& program, int device_classes,
                          const std::vector<DeviceBytes>& devices) {
  std::string text = absl::StrCat(
      "program ", program.name(), ": ", device_classes, " device classes, ", program.actors_size(),
      " actors, ", program.registers_size(), " registers, ", program.passes_size(),
      " passes, predicted step ", Microseconds(program.predicted_nanoseconds()), "\n");
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceBytes& bytes = devices[d];
    const double ratio =
        bytes.live > 0 ? static_cast<double>(bytes.packed) / static_cast<double>(bytes.live) : 1;
    absl::StrAppend(&text, absl::StrFormat("  device %d: variables %d bytes, planned %d, peak of "
                                           "live bytes %d (%.3f)\n",
                                           d, bytes.variables, bytes.packed, bytes.live, ratio));
  }
  return text;
}

}  // namespace sluice
