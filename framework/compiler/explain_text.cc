#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/compiler/explain.h"

namespace sluice {
namespace {

std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%.1f us", static_cast<double>(nanoseconds) / 1000);
}

void AppendOp(const ExplainedOp& op, std::string* text) {
  absl::StrAppend(text, "  ", op.name, " (", PhaseName(op.phase), ", stage ", op.stage,
                  "): ", op.signature, "  ", Microseconds(op.nanoseconds));
  if (op.alternatives.size() > 1) {
    absl::StrAppend(text, "  not");
    for (const auto& other : op.alternatives) {
      if (other.first == op.signature) continue;
      absl::StrAppend(text, " [", other.first, " ", Microseconds(other.second), "]");
    }
  }
  absl::StrAppend(text, "\n");
}

void AppendBoxings(const ExplainedProgram& program, std::string* text) {
  int64_t bytes = 0;
  for (const ExplainedBoxing& boxing : program.boxings) bytes += boxing.firings * boxing.bytes;
  absl::StrAppend(text, "boxings: ", program.boxings.size(), ", ", bytes,
                  " bytes a step between devices\n");
  for (const ExplainedBoxing& boxing : program.boxings) {
    absl::StrAppend(text, PhaseName(boxing.phase), " ", boxing.tensor, ": ", boxing.recipe, " ",
                    boxing.from, " -> ", boxing.to, ", ", boxing.firings, " x ", boxing.bytes,
                    " bytes, ", Microseconds(boxing.nanoseconds), ", for ", boxing.reader, "\n");
  }
}

void AppendChoices(const ExplainedProgram& program, absl::string_view mesh, std::string* text) {
  absl::StrAppend(text, "program ", program.name, " on ", mesh);
  if (program.micro_batches > 1) absl::StrAppend(text, ", micro=", program.micro_batches);
  absl::StrAppend(text, "\n");
  for (const std::string& warning : program.warnings) {
    absl::StrAppend(text, "warning: ", warning, "\n");
  }
  absl::StrAppend(text, "variables\n");
  for (NodeId id : program.variables) {
    const ExplainedOp& op = program.ops[id];
    const ExplainedTensor& tensor = program.tensors[op.outputs[0]];
    absl::StrAppend(text, "  ", op.name, " ", tensor.type, "  stage ", op.stage, "  ",
                    tensor.layout, "\n");
  }
  absl::StrAppend(text, "ops: signature, time a step, what else was legal\n");
  for (const ExplainedOp& op : program.ops) {
    if (!op.signature.empty()) AppendOp(op, text);
  }
  AppendBoxings(program, text);
}

void AppendMemory(const ExplainedProgram& program, std::string* text) {
  absl::StrAppend(text, "program ", program.name, ": ", program.device_classes, " device classes, ",
                  program.actors.size(), " actors, ", program.registers, " registers, ",
                  program.reuse_edges, " reuse edges, predicted step ",
                  Microseconds(program.step_nanoseconds), "\n");
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const ExplainedDevice& device = program.devices[d];
    const double ratio =
        device.live > 0 ? static_cast<double>(device.packed) / static_cast<double>(device.live) : 1;
    absl::StrAppend(text, absl::StrFormat("  device %d: variables %d bytes, planned %d, peak of "
                                          "live bytes %d (%.3f)\n",
                                          d, device.variables, device.packed, device.live, ratio));
    if (device.representative != static_cast<int32_t>(d)) continue;
    for (const std::vector<int32_t>& blocks : device.peak) {
      const ExplainedBytes& bytes = device.memory[blocks[0]];
      absl::StrAppend(text, "    at the peak: ", blocks.size(), " x ", bytes.bytes, " bytes of ",
                      bytes.name, "\n");
    }
  }
}

}  // namespace

std::string ExplanationText(const Explanation& explanation) {
  std::string text;
  for (const ExplainedProgram& program : explanation.programs) {
    AppendChoices(program, explanation.mesh, &text);
  }
  for (const ExplainedProgram& program : explanation.programs) AppendMemory(program, &text);
  return text;
}

}  // namespace sluice
