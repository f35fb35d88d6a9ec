#include "framework/compiler/check_programs.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/text.h"

namespace sluice {
namespace {

// Calls fn(name of the node, annotation) for each annotation of a graph.
template <typename Fn>
void ForEachAnnotation(const Graph& graph, const Fn& fn) {
  for (TensorId t = 0; t < graph.num_tensors(); ++t) {
    const TensorInfo& info = graph.tensor(t);
    for (const SbpAnnotation* annotation : {&info.annotation, &info.storage, &info.state}) {
      if (!annotation->empty()) fn(graph.node(info.producer).name, *annotation);
    }
  }
}

std::vector<std::string> AxesOf(absl::Span<const ProgramGraph> programs) {
  std::set<std::string> names;
  for (const ProgramGraph& program : programs) {
    ForEachAnnotation(*program.graph, [&](const std::string&, const SbpAnnotation& annotation) {
      for (const auto& [axis, sbp] : annotation.entries) names.insert(axis);
    });
  }
  return {names.begin(), names.end()};
}

// A stage is -1 until Finish settles it.
bool IsFinished(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.stage < 0) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckPrograms(absl::Span<const ProgramGraph> programs, const Mesh& mesh) {
  for (const ProgramGraph& program : programs) {
    if (!program.graph->status().ok() || IsFinished(*program.graph)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("program ", program.name,
                     ": expected a graph on which Finish() was called, got one that is not "
                     "finished"));
  }
  const std::vector<std::string> named = AxesOf(programs);
  const std::set<std::string> mentioned(named.begin(), named.end());
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.kind == AxisKind::kStage || axis.size == 1 || mentioned.count(axis.name) > 0) continue;
    std::vector<std::string> expected = named;
    expected.push_back("pipe");
    return absl::InvalidArgumentError(
        absl::StrCat("mesh axis \"", axis.name, "\": no annotation of the model names it, so its ",
                     axis.size, " devices would do the same work; expected one of ",
                     absl::StrJoin(expected, ", "), DidYouMean(axis.name, expected)));
  }
  return absl::OkStatus();
}

std::vector<std::string> MisspeltAnnotations(absl::Span<const ProgramGraph> programs,
                                             const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes()) axes.push_back(axis.name);
  std::set<std::string> lines;
  for (const ProgramGraph& program : programs) {
    ForEachAnnotation(*program.graph, [&](const std::string& node, const SbpAnnotation& a) {
      for (const auto& [axis, sbp] : a.entries) {
        const std::string nearest = NearestName(axis, axes);
        if (nearest.empty() || nearest == axis) continue;
        lines.insert(absl::StrCat("the annotation \"", a.ToString(), "\" of ", node,
                                  " has no effect: the mesh has no axis \"", axis,
                                  "\"; did you mean \"", nearest, "\"?"));
      }
    });
  }
  return {lines.begin(), lines.end()};
}

}  // namespace sluice
