#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "framework/explain/explain.h"

namespace sluice {
namespace {

std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%.1f us", static_cast<double>(nanoseconds) / 1000);
}

// A line for each rule, because one or two of them refuse most of an op's signatures.
void AppendRefused(const ExplainedOp& op, absl::Span<const ExplainedRule> rules,
                   std::string* text) {
  for (size_t r = 0; r < rules.size(); ++r) {
    std::string signatures;
    for (const ExplainedRefusal& refusal : op.refused) {
      if (refusal.rule == static_cast<int32_t>(r)) {
        absl::StrAppend(&signatures, " [", refusal.signature, "]");
      }
    }
    if (!signatures.empty()) {
      absl::StrAppend(text, "    refused by \"", rules[r].name, "\":", signatures, "\n");
    }
  }
  for (const int32_t r : op.gave_way) {
    absl::StrAppend(text, "    gave way: \"", rules[r].name, "\"\n");
  }
}

void AppendOp(const ExplainedOp& op, absl::Span<const ExplainedRule> rules, std::string* text) {
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
  AppendRefused(op, rules, text);
}

void AppendCalls(const ExplainedProgram& program, std::string* text) {
  for (const ExplainedCalls& calls : program.calls) {
    absl::StrAppend(text, "one instruction of device ", calls.device, ": ", calls.nodes.size(), " ",
                    calls.op, " of");
    for (const NodeId node : calls.nodes) absl::StrAppend(text, " ", program.ops[node].name);
    absl::StrAppend(text, "\n");
  }
}

void AppendBoxings(const ExplainedProgram& program, std::string* text) {
  int64_t bytes = 0, between_hosts = 0;
  for (const ExplainedBoxing& boxing : program.boxings) {
    bytes += boxing.firings * boxing.bytes;
    between_hosts += boxing.firings * boxing.between_hosts;
  }
  const auto of_them = [](int64_t far) {
    return far == 0 ? std::string() : absl::StrCat(", ", far, " of them between hosts");
  };
  absl::StrAppend(text, "boxings: ", program.boxings.size(), ", ", bytes,
                  " bytes a step between devices", of_them(between_hosts), "\n");
  for (const ExplainedBoxing& boxing : program.boxings) {
    absl::StrAppend(text, PhaseName(boxing.phase), " ", boxing.tensor, ": ", boxing.recipe, " ",
                    boxing.from, " -> ", boxing.to, ", ", boxing.firings, " x ", boxing.bytes,
                    " bytes", of_them(boxing.between_hosts), ", ", Microseconds(boxing.nanoseconds),
                    ", for ", boxing.reader, "\n");
  }
}

void AppendChoices(const ExplainedProgram& program, const Explanation& explanation,
                   std::string* text) {
  absl::StrAppend(text, "program ", program.name, " on ", explanation.mesh);
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
    if (!op.signature.empty()) AppendOp(op, explanation.rules, text);
  }
  AppendCalls(program, text);
  AppendBoxings(program, text);
}

void AppendMemory(const ExplainedProgram& program, bool representatives_only, std::string* text) {
  absl::StrAppend(text, "program ", program.name, ": ", program.device_classes,
                  program.device_classes == 1 ? " class of devices" : " classes of devices",
                  representatives_only ? ", and of one device of each " : ", ",
                  program.actors.size(), " actors, ", program.registers, " registers, ",
                  program.reuse_edges, " reuse edges; predicted step ",
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

// Of a device that stands for its class: tensors with their bytes, at the peak or all the time.
std::vector<std::pair<int64_t, std::string>> AliveAtPeak(const ExplainedDevice& device) {
  std::vector<std::pair<int64_t, std::string>> alive;
  for (const std::vector<int32_t>& blocks : device.peak) {
    int64_t bytes = 0;
    for (const int32_t block : blocks) bytes += device.memory[block].bytes;
    alive.push_back({bytes, device.memory[blocks[0]].name});
  }
  for (const ExplainedBytes& bytes : device.memory) {
    const bool optimizer = bytes.kind == MemoryKind::kOptimizer;
    if (!optimizer && bytes.kind != MemoryKind::kParameter) continue;
    alive.push_back(
        {bytes.bytes, absl::StrCat(optimizer ? "optimizer state " : "parameter ", bytes.name)});
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return alive;
}

}  // namespace

std::string LargestAtPeak(const Explanation& explanation) {
  constexpr size_t kLargest = 10;
  const ExplainedProgram* fullest = nullptr;
  size_t where = 0;
  int64_t most = -1;
  for (const ExplainedProgram& program : explanation.programs) {
    for (size_t d = 0; d < program.devices.size(); ++d) {
      const int64_t bytes = program.devices[d].variables + program.devices[d].packed;
      if (bytes <= most) continue;
      most = bytes;
      fullest = &program;
      where = d;
    }
  }
  if (fullest == nullptr) return "";
  const int32_t representative = fullest->devices[where].representative;
  std::string text =
      absl::StrCat("The largest at the peak of device ", where, ", program ", fullest->name, ":");
  auto alive = AliveAtPeak(fullest->devices[representative]);
  alive.resize(std::min(alive.size(), kLargest));
  for (const auto& [bytes, name] : alive) {
    absl::StrAppend(&text, "\n  ", bytes, " bytes of ", name);
  }
  return text;
}

std::string ExplanationText(const Explanation& explanation) {
  std::string text = "rules that refuse signatures, in the order in which they are asked\n";
  for (const ExplainedRule& rule : explanation.rules) {
    absl::StrAppend(&text, "  ", rule.name, ": ", rule.reason, "\n");
  }
  absl::StrAppend(&text, "devices: place in the mesh, rank, host\n");
  for (size_t d = 0; d < explanation.devices.size(); ++d) {
    absl::StrAppend(&text, "  device ", d, ": ", explanation.devices[d], "\n");
  }
  for (const ExplainedProgram& program : explanation.programs) {
    AppendChoices(program, explanation, &text);
  }
  for (const ExplainedProgram& program : explanation.programs) {
    AppendMemory(program, explanation.representatives_only, &text);
  }
  return text;
}

}  // namespace sluice
