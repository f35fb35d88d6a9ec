#include "framework/explain/page.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "framework/base/log.h"
#include "nlohmann/json.hpp"

namespace sluice {

using nlohmann::json;

// Made from page/ by the build.
extern const char kExplainPageTemplate[];

namespace {

constexpr char kMarker[] = "<!--DATA-->";

class Writer {
 public:
  json Write(const Explanation& explanation);

 private:
  int32_t Intern(const std::string& text);
  json Ops(const ExplainedProgram& program);
  json Actors(const ExplainedProgram& program);
  json Streams(const ExplainedProgram& program);
  json Devices(const ExplainedProgram& program);
  json Measured(const MeasuredRun& run);

  std::vector<std::string> strings_;
  std::map<std::string, int32_t> place_;
};

json Writer::Write(const Explanation& explanation) {
  json written;
  written["mesh"] = explanation.mesh;
  written["devices"] = explanation.devices;
  written["stage_of"] = explanation.stage_of;
  written["rules"] = json::array();
  for (const ExplainedRule& rule : explanation.rules) {
    written["rules"].push_back({Intern(rule.name), Intern(rule.reason)});
  }
  json variables = json::array();
  for (const ExplainedVariable& v : explanation.variables) {
    variables.push_back({Intern(v.name), Intern(v.type), Intern(v.layout), v.stage, v.state});
  }
  written["variables"] = std::move(variables);
  written["programs"] = json::array();
  for (const ExplainedProgram& p : explanation.programs) {
    json tensors = json::array(), boxings = json::array();
    for (const ExplainedTensor& t : p.tensors) {
      tensors.push_back({Intern(t.name), Intern(t.type), Intern(t.layout)});
    }
    for (const ExplainedBoxing& b : p.boxings) {
      boxings.push_back({Intern(b.tensor), Intern(b.recipe), Intern(b.from), Intern(b.to),
                         Intern(b.reader), static_cast<int>(b.phase), b.firings, b.bytes,
                         b.nanoseconds});
    }
    written["programs"].push_back({{"name", p.name},
                                   {"micro_batches", p.micro_batches},
                                   {"warnings", p.warnings},
                                   {"tensors", std::move(tensors)},
                                   {"ops", Ops(p)},
                                   {"boxings", std::move(boxings)},
                                   {"actors", Actors(p)},
                                   {"streams", Streams(p)},
                                   {"devices", Devices(p)},
                                   {"device_classes", p.device_classes},
                                   {"registers", p.registers},
                                   {"reuse_edges", p.reuse_edges},
                                   {"step_nanoseconds", p.step_nanoseconds},
                                   {"makespan", p.makespan}});
    if (p.measured) written["programs"].back()["measured"] = Measured(*p.measured);
  }
  written["strings"] = strings_;
  return written;
}

int32_t Writer::Intern(const std::string& text) {
  const auto [found, added] = place_.emplace(text, static_cast<int32_t>(strings_.size()));
  if (added) strings_.push_back(text);
  return found->second;
}

json Writer::Ops(const ExplainedProgram& program) {
  json ops = json::array();
  for (const ExplainedOp& op : program.ops) {
    json reads = json::array(), alternatives = json::array(), refused = json::array();
    for (const std::string& layout : op.reads) reads.push_back(Intern(layout));
    for (const auto& other : op.alternatives) {
      alternatives.push_back({Intern(other.first), other.second});
    }
    for (const ExplainedRefusal& refusal : op.refused) {
      refused.push_back({Intern(refusal.signature), refusal.rule});
    }
    ops.push_back({Intern(op.name), Intern(op.op), static_cast<int>(op.phase), op.stage, op.forward,
                   op.inputs, op.outputs, std::move(reads), Intern(op.signature), op.nanoseconds,
                   std::move(alternatives), std::move(refused), op.gave_way});
  }
  return ops;
}

json Writer::Actors(const ExplainedProgram& program) {
  json actors = json::array();
  for (const ExplainedActor& actor : program.actors) {
    json script = json::array();
    for (const ExplainedInstruction& x : actor.script) {
      script.push_back({Intern(x.op), Intern(x.scope), x.node, x.boxing, static_cast<int>(x.phase),
                        x.flops, x.bytes, x.wire_bytes, x.nanoseconds});
    }
    actors.push_back({Intern(actor.name), actor.device, actor.stream, actor.firings,
                      actor.representative, std::move(script)});
  }
  return actors;
}

json Writer::Streams(const ExplainedProgram& program) {
  json streams = json::array();
  for (const ExplainedStream& stream : program.streams) {
    json spans = json::array();
    for (const ExplainedSpan& s : stream.spans) {
      spans.push_back({s.actor, s.firing, s.instruction, s.begin, s.end - s.begin});
      if (s.owed_by >= 0) {
        spans.back().push_back(Intern(s.wait));
        spans.back().push_back(s.owed_by);
      }
    }
    streams.push_back({stream.device, Intern(stream.kind), std::move(spans)});
  }
  return streams;
}

json Writer::Devices(const ExplainedProgram& program) {
  json devices = json::array();
  for (const ExplainedDevice& device : program.devices) {
    json memory = json::array();
    for (const ExplainedBytes& b : device.memory) {
      memory.push_back({Intern(b.name), static_cast<int>(b.kind), b.offset, b.bytes, b.begin, b.end,
                        b.maker, b.made_at, b.last, b.freed_at});
    }
    devices.push_back({{"representative", device.representative},
                       {"variables", device.variables},
                       {"packed", device.packed},
                       {"live", device.live},
                       {"peak_time", device.peak_time},
                       {"peak", device.peak},
                       {"memory", std::move(memory)}});
  }
  return devices;
}

json Writer::Measured(const MeasuredRun& run) {
  json streams = json::array(), waits = json::array(), instructions = json::array(),
       debts = json::array();
  for (const auto& stream : run.streams) {
    streams.push_back(json::array());
    for (const MeasuredSpan& s : stream) {
      streams.back().push_back(
          {s.actor, s.firing, s.instruction, s.begin, s.end - s.begin, s.worker});
    }
  }
  for (const MeasuredWait& w : run.waits) {
    waits.push_back(
        {w.worker, w.stream, w.actor, Intern(w.what), w.owed_by, w.begin, w.end - w.begin});
  }
  for (const MeasuredInstruction& x : run.instructions) {
    instructions.push_back({x.actor, x.instruction, x.total / x.count, x.least, x.most, x.count});
  }
  for (const MeasuredDebt& d : run.debts) {
    debts.push_back({d.actor, Intern(d.what), d.owed_by, d.total, d.count});
  }
  return {{"step", run.step},          {"makespan", run.makespan},
          {"steps", run.steps},        {"streams", std::move(streams)},
          {"waits", std::move(waits)}, {"instructions", std::move(instructions)},
          {"debts", std::move(debts)}};
}

}  // namespace

// Bytes that are no UTF-8 are replaced.
std::string ExplanationJson(const Explanation& explanation) {
  return Writer().Write(explanation).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string ExplanationPage(const Explanation& explanation) {
  const absl::string_view page = kExplainPageTemplate;
  const size_t marker = page.find(kMarker);
  SLUICE_CHECK(marker != absl::string_view::npos) << "the template lacks its marker";
  const absl::string_view rest = page.substr(marker + sizeof(kMarker) - 1);
  std::string text(page.data(), marker);
  // Within a script element only "<" could end the data.
  text += absl::StrReplaceAll(ExplanationJson(explanation), {{"<", "\\u003c"}});
  text.append(rest.data(), rest.size());
  return text;
}

}  // namespace sluice
