#include "framework/plan/validate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/takes.h"
#include "framework/plan/validate_collectives.h"
#include "framework/plan/validate_places.h"

namespace sluice {
namespace {

absl::Status Bad(const ProgramIndex& index, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("program \"", index.program().name(), "\": ", what));
}

absl::Status CheckRegister(const ProgramIndex& index, int r) {
  const ProgramIndex::Register& x = index.reg(r);
  const std::string name = index.RegisterName(r);
  const int32_t slots = index.ring(x.ring).slots;
  if (x.initial > slots) {
    return Bad(index, absl::StrCat(name, ": ", x.initial, " initial tokens in ", slots, " slots"));
  }
  if (x.updated && x.initial > 0 && slots != 1) {
    return Bad(index,
               absl::StrCat(name, ": state that is updated in place needs one slot, has ", slots));
  }
  if (x.producer >= 0 && index.actor(x.producer).firings != x.every * x.tokens) {
    return Bad(index, absl::StrCat(name, ": emitted every ", x.every, " firings of ",
                                   index.ActorName(x.producer), ", which fires ",
                                   index.actor(x.producer).firings, " times a step"));
  }
  for (int n = x.consumers_begin; n < x.consumers_end; ++n) {
    const ProgramIndex::Consumer& consumer = index.consumer(n);
    if (index.actor(consumer.actor).firings != consumer.serves * x.tokens) {
      return Bad(index, absl::StrCat(name, ": ", x.tokens, " tokens a step cannot serve the ",
                                     index.actor(consumer.actor).firings, " firings of ",
                                     index.ActorName(consumer.actor), " evenly"));
    }
    if (consumer.actor == x.producer && x.initial > 0 && consumer.first <= x.last_write &&
        x.last_write < consumer.last) {
      return Bad(index, absl::StrCat(index.ActorName(consumer.actor), " reads ", name,
                                     " both before and after it updates it"));
    }
  }
  return {};
}

// The kinds are ones that there are; a collective has a number, and nothing else has.
absl::Status CheckKind(const ProgramIndex& index, int a, int i) {
  const plan::Instruction& x = index.instruction(a, i);
  if (InstructionKindName(x.kind()).empty()) {
    return Bad(index, absl::StrCat(index.Describe(a, 0, i), ": no kind of instruction has number ",
                                   static_cast<int>(x.kind())));
  }
  if (!x.op().empty() && !HasOp(x.kind())) {
    return Bad(index, absl::StrCat(index.Describe(a, 0, i), ": expected no op, got \"", x.op(),
                                   "\": kernels and collectives have one"));
  }
  if ((x.collective() > 0) != (x.kind() == plan::INSTRUCTION_COLLECTIVE)) {
    return Bad(index, absl::StrCat(index.Describe(a, 0, i), ": got collective ", x.collective(),
                                   ", expected a number above 0 of collectives alone"));
  }
  return {};
}

absl::Status CheckInstruction(const ProgramIndex& index, int a, int i) {
  RETURN_IF_ERROR(CheckKind(index, a, i));
  const plan::Instruction& x = index.instruction(a, i);
  for (const auto* operands : {&x.inputs(), &x.outputs()}) {
    for (const plan::Operand& operand : *operands) {
      if (operand.storage_case() != plan::Operand::kTemporary) continue;
      const int32_t owner = index.program().temporaries(operand.temporary()).actor();
      if (owner == a) continue;
      return Bad(index, absl::StrCat(index.Describe(a, 0, i), " uses temporary ",
                                     operand.temporary(), ", which is actor ", owner, "'s"));
    }
  }
  absl::InlinedVector<int32_t, 4> writes;  // sorted below
  for (const plan::Operand& operand : x.outputs()) {
    if (operand.updates()) {
      return Bad(index, absl::StrCat(index.Describe(a, 0, i), ": an output cannot be an update"));
    }
    if (operand.storage_case() == plan::Operand::kRegister) writes.push_back(operand.register_());
  }
  for (const plan::Operand& operand : x.inputs()) {
    if (operand.takes() != 0) {
      return Bad(index, absl::StrCat(index.Describe(a, 0, i), ": an input cannot take bytes"));
    }
    if (operand.updates() && operand.storage_case() == plan::Operand::kRegister) {
      writes.push_back(operand.register_());
    }
  }
  for (int output = 0; output < x.outputs_size(); ++output) {
    const int64_t takes = x.outputs(output).takes();
    if (takes != 0) RETURN_IF_ERROR(CheckTakes(index, a, i, output, takes - 1));
  }
  std::sort(writes.begin(), writes.end());
  for (const plan::Operand& operand : x.inputs()) {
    if (operand.updates() || operand.storage_case() != plan::Operand::kRegister) continue;
    const ProgramIndex::Register& r = index.reg(operand.register_());
    // Reading what the same firing wrote into the register before is fine.
    if (!std::binary_search(writes.begin(), writes.end(), operand.register_()) ||
        (r.initial == 0 && r.every == 1 && i > r.first_write)) {
      continue;
    }
    return Bad(index, absl::StrCat(index.Describe(a, 0, i), " both reads and writes ",
                                   index.RegisterName(operand.register_()),
                                   ": mark the operand as an update"));
  }
  return {};
}

absl::Status CheckRing(const ProgramIndex& index, const plan::Ring& ring) {
  int device = -1;
  for (int32_t r : ring.registers()) {
    const ProgramIndex::Register& x = index.reg(r);
    const std::string where = absl::StrCat("ring \"", ring.name(), "\": ", index.RegisterName(r));
    if (x.producer < 0) return Bad(index, absl::StrCat(where, " is the session's"));
    if (x.initial > 0) return Bad(index, absl::StrCat(where, " has a token at the start"));
    if (x.places != x.tokens) {
      return Bad(index, absl::StrCat(where, " takes ", x.places, " slots a round, emits ", x.tokens,
                                     " tokens a step"));
    }
    const int here = index.program().registers(r).device();
    if (device >= 0 && device != here) {
      return Bad(index, absl::StrCat(where, " lies on device ", here, ", others on ", device));
    }
    device = here;
  }
  return {};
}

absl::Status CheckList(const ProgramIndex& index, int s, std::vector<int>* seen) {
  if (!index.listed(s)) return {};
  for (const plan::ScheduleEntry& entry : index.program().streams(s).order()) {
    for (int i = entry.from(); i < entry.to(); ++i) {
      ++(*seen)[index.InstanceOf(entry.actor(), entry.firing(), i)];
    }
  }
  for (int32_t a : index.StreamActors(s)) {
    for (int f = 0; f < index.actor(a).firings; ++f) {
      for (int i = 0; i < index.actor(a).length; ++i) {
        const int times = (*seen)[index.InstanceOf(a, f, i)];
        if (times == 1) continue;
        return Bad(index, absl::StrCat("the order of ", index.StreamName(s), " holds ",
                                       index.Describe(a, f, i), " ", times, " times"));
      }
    }
  }
  return {};
}

absl::Status CheckCollective(const ProgramIndex& index, absl::Span<const ProgramIndex::Member> of,
                             std::map<int, int>* list_of_device) {
  std::map<int, int> member_on;
  const ProgramIndex::Member& first = of.front();
  for (const ProgramIndex::Member& m : of) {
    const std::string who = index.Describe(m.actor, 0, m.instruction);
    if (index.actor(m.actor).firings != index.actor(first.actor).firings) {
      return Bad(index,
                 absl::StrCat("collective ", index.instruction(m.actor, m.instruction).collective(),
                              ": ", index.ActorName(m.actor), " fires ",
                              index.actor(m.actor).firings, " times a step, ",
                              index.ActorName(first.actor), " ", index.actor(first.actor).firings));
    }
    const int device = index.device_of(m.actor), stream = index.actor(m.actor).stream;
    if (!member_on.emplace(device, 1).second) {
      return Bad(index,
                 absl::StrCat(who, ": device ", device, " has two members of one collective"));
    }
    if (!index.listed(stream)) {
      return Bad(index, absl::StrCat(who, " is a collective on ", index.StreamName(stream),
                                     ", which has no order"));
    }
    if (list_of_device->emplace(device, stream).first->second != stream) {
      return Bad(index, absl::StrCat(who, ": device ", device, " has collectives in two orders"));
    }
  }
  return {};
}

}  // namespace

absl::Status CheckRates(const ProgramIndex& index) {
  for (int s = 0; s < index.num_streams(); ++s) {
    if (!StreamKindName(index.stream_kind(s)).empty()) continue;
    return Bad(index, absl::StrCat("stream ", s, ": no kind of stream has number ",
                                   static_cast<int>(index.stream_kind(s))));
  }
  for (int a = 0; a < index.num_actors(); ++a) {
    for (int i = 0; i < index.actor(a).length; ++i) RETURN_IF_ERROR(CheckInstruction(index, a, i));
  }
  for (int r = 0; r < index.num_registers(); ++r) RETURN_IF_ERROR(CheckRegister(index, r));
  for (const plan::Ring& ring : index.program().rings()) RETURN_IF_ERROR(CheckRing(index, ring));
  return {};
}

absl::Status CheckOrder(const ProgramIndex& index) {
  std::vector<int> seen(index.num_instances(), 0);
  for (int s = 0; s < index.num_streams(); ++s) RETURN_IF_ERROR(CheckList(index, s, &seen));
  std::map<int, int> list_of_device;
  for (int c = 0; c < index.num_collectives(); ++c) {
    RETURN_IF_ERROR(CheckCollective(index, index.Members(c), &list_of_device));
  }
  return {};
}

absl::Status ValidateProgram(const ProgramIndex& index) {
  RETURN_IF_ERROR(CheckRates(index));
  return CheckOrder(index);
}

absl::Status ValidateProgram(const plan::Program& program) {
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(program));
  RETURN_IF_ERROR(CheckRates(index));
  for (int s = 0; s < index.num_streams(); ++s) {
    if (index.listed(s)) return CheckOrder(index);
  }
  return {};
}

namespace {

// An instruction addresses one memory space: its stream's. Transfers alone reach others, of their
// rank if they are copies.
absl::Status CheckSpaces(const plan::Plan& plan, absl::Span<const int32_t> spaces,
                         const ProgramIndex& index) {
  const plan::Program& program = index.program();
  for (int a = 0; a < index.num_actors(); ++a) {
    const int32_t here = index.device_of(a);
    for (int i = 0; i < index.actor(a).length; ++i) {
      const plan::Instruction& x = index.instruction(a, i);
      for (const auto* operands : {&x.inputs(), &x.outputs()}) {
        for (const plan::Operand& operand : *operands) {
          if (operand.storage_case() != plan::Operand::kRegister) continue;
          const plan::Register& reg = program.registers(operand.register_());
          const int32_t there = reg.device();
          // What another rank has is read by pulls alone; what stands for its actors reads here.
          const bool foreign = plan.devices(there).rank() != plan.rank();
          if (foreign && x.kind() != plan::INSTRUCTION_PULL &&
              x.kind() != plan::INSTRUCTION_REMOTE) {
            return Bad(index,
                       absl::StrCat(index.Describe(a, 0, i), ": expected operands of rank ",
                                    plan.rank(), ", got ", index.RegisterName(operand.register_()),
                                    " of device ", DeviceName(plan.devices(there))));
          }
          const bool reached = x.kind() == plan::INSTRUCTION_COPY
                                   ? plan.devices(there).rank() == plan.devices(here).rank()
                                   : IsTransfer(x.kind()) || spaces[there] == spaces[here];
          if (reached || reg.bytes() == 0) continue;
          return Bad(index,
                     absl::StrCat(index.Describe(a, 0, i), ": expected operands in the memory of ",
                                  "device ", DeviceName(plan.devices(here)), ", got ",
                                  index.RegisterName(operand.register_()), " of device ",
                                  DeviceName(plan.devices(there))));
        }
      }
    }
  }
  return {};
}

}  // namespace

absl::Status ValidateUnpackedPlan(const plan::Plan& plan, const Stop& stop,
                                  std::vector<ProgramIndex>* indexes) {
  auto bad = [](const std::string& what) { return absl::InvalidArgumentError("plan: " + what); };
  for (int d = 0; d < plan.devices_size(); ++d) {
    if (!DeviceKindName(KindOf(plan.devices(d))).empty()) continue;
    return bad(absl::StrCat("device ", d, ": no kind of device has number ",
                            static_cast<int>(plan.devices(d).kind())));
  }
  for (const plan::Variable& variable : plan.variables()) {
    for (const plan::VariableShard& shard : variable.shards()) {
      if (shard.device() >= 0 && shard.device() < plan.devices_size()) continue;
      return bad(absl::StrCat("variable \"", variable.name(), "\" has a shard on device ",
                              shard.device(), " of ", plan.devices_size()));
    }
  }
  const std::vector<int32_t> spaces = MemorySpaces(plan);
  std::set<std::string> variables;
  for (const plan::Variable& v : plan.variables()) variables.insert(v.name());
  for (const plan::Program& program : plan.programs()) {
    for (const plan::Stream& stream : program.streams()) {
      if (stream.device() >= 0 && stream.device() < plan.devices_size()) continue;
      return bad(absl::StrCat("program \"", program.name(), "\": stream d", stream.device(), ".",
                              StreamKindName(stream.kind()), " is on device ", stream.device(),
                              " of ", plan.devices_size()));
    }
    for (const plan::Register& r : program.registers()) {
      if (r.device() < 0 || r.device() >= plan.devices_size()) {
        return bad(absl::StrCat("program \"", program.name(), "\": register \"", r.name(),
                                "\" lies on device ", r.device(), " of ", plan.devices_size()));
      }
      if (r.variable().empty() || variables.count(r.variable())) continue;
      return bad(absl::StrCat("program \"", program.name(), "\": register \"", r.name(),
                              "\" is variable \"", r.variable(), "\", which the plan lacks"));
    }
    ASSIGN_OR_RETURN(ProgramIndex index, ProgramIndex::Build(program));
    RETURN_IF_ERROR(CheckStop(stop));
    RETURN_IF_ERROR(ValidateProgram(index));
    RETURN_IF_ERROR(CheckStop(stop));
    RETURN_IF_ERROR(CheckSpaces(plan, spaces, index));
    RETURN_IF_ERROR(CheckStop(stop));
    if (indexes != nullptr) indexes->push_back(std::move(index));
  }
  return {};
}

absl::Status ValidatePlan(const plan::Plan& plan, const Stop& stop,
                          std::vector<ProgramIndex>* indexes) {
  std::vector<ProgramIndex> built;
  RETURN_IF_ERROR(ValidateUnpackedPlan(plan, stop, &built));
  RETURN_IF_ERROR(CheckVariables(plan));
  for (const ProgramIndex& index : built) {
    RETURN_IF_ERROR(CheckStop(stop));
    RETURN_IF_ERROR(CheckPlaces(plan, index));
    RETURN_IF_ERROR(CheckCollectives(plan, index));
  }
  if (indexes != nullptr) *indexes = std::move(built);
  return {};
}

}  // namespace sluice
