#include "framework/plan/statistics.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/plan/kinds.h"

namespace sluice {
namespace {

int64_t CountMessages(const ProgramIndex& index) {
  int64_t messages = 0;
  for (int r = 0; r < index.num_registers(); ++r) {
    const ProgramIndex::Register& x = index.reg(r);
    for (int n = x.consumers_begin; n < x.consumers_end && x.producer >= 0; ++n) {
      const int32_t reader = index.consumer(n).actor;
      if (reader != x.producer) messages += x.tokens;  // req
      // An ack goes to the producer of the slot's next sequence number.
      const ProgramIndex::Ring& ring = index.ring(x.ring);
      for (int64_t t = 0; t < x.tokens; ++t) {
        const int64_t next = index.SequenceOf(r, t) + ring.slots;
        if (index.reg(index.PlaceOf(x.ring, next).reg).producer != reader) ++messages;
      }
    }
  }
  for (const plan::ReuseEdge& reuse_edge : index.program().reuse_edges()) {
    messages += reuse_edge.after().actor() != reuse_edge.before().actor();
  }
  return messages;
}

void CountBoxing(const plan::Instruction& x, int64_t firings, ProgramStatistics* out,
                 std::map<std::tuple<std::string, std::string, std::string>, size_t>* where) {
  if (x.kind() != plan::INSTRUCTION_FOLD && x.wire_bytes() == 0) return;
  const std::string op = InstructionName(x);
  auto [it, fresh] = where->emplace(std::tuple(op, x.attributes(), x.scope()), out->boxings.size());
  if (fresh) out->boxings.push_back({op, x.attributes(), x.scope(), 0, 0, 0});
  BoxingCount& boxing = out->boxings[it->second];
  ++boxing.instructions;
  boxing.times = std::max(boxing.times, firings);
  boxing.wire_bytes += firings * x.wire_bytes();
}

}  // namespace

ProgramStatistics CountProgram(const ProgramIndex& index) {
  ProgramStatistics out;
  const plan::Program& program = index.program();
  out.actors = program.actors_size();
  out.registers = program.registers_size();
  out.reuse_edges = program.reuse_edges_size();
  out.instances = index.num_instances();
  out.messages = CountMessages(index);
  std::map<std::tuple<std::string, std::string, std::string>, size_t> where;
  for (const plan::Actor& actor : program.actors()) {
    for (const plan::Instruction& x : actor.script()) {
      ++out.instructions;
      out.flops += actor.firings_per_step() * x.flops();
      out.wire_bytes += actor.firings_per_step() * x.wire_bytes();
      CountBoxing(x, actor.firings_per_step(), &out, &where);
    }
  }
  return out;
}

std::string SummarizePlan(const plan::Plan& plan, bool with_bytes) {
  std::string text;
  for (int d = 0; with_bytes && d < plan.devices_size(); ++d) {
    absl::StrAppend(&text, "device ", d, ": ", plan.devices(d).variable_bytes(),
                    " bytes of variables, ", plan.devices(d).memory_bytes(), " in all\n");
  }
  for (const plan::Program& program : plan.programs()) {
    const absl::StatusOr<ProgramIndex> index = ProgramIndex::Build(program);
    SLUICE_CHECK(index.ok()) << index.status().ToString();
    const ProgramStatistics count = CountProgram(*index);
    absl::StrAppend(&text, "program ", program.name(), ": ", count.actors, " actors, ",
                    count.registers, " registers, ", count.instructions, " instructions, ",
                    count.messages, " messages a step\n");
    for (const BoxingCount& x : count.boxings) {
      absl::StrAppend(&text, "  boxing ", x.op);
      if (!x.recipe.empty()) absl::StrAppend(&text, " ", x.recipe);
      absl::StrAppend(&text, " ", x.tensor, ": ", x.instructions, " x ", x.times, ", ",
                      x.wire_bytes, " bytes a step\n");
    }
  }
  return text;
}

}  // namespace sluice
