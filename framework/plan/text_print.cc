#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/text.h"
#include "framework/plan/kinds.h"
#include "framework/plan/text.h"
#include "framework/plan/text_names.h"
#include "framework/tensor/shard.h"

namespace sluice {
namespace {

using plan_text::KindOfText;
using plan_text::KindText;
using plan_text::NameText;

template <typename Values>
std::string List(const Values& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

std::string DTypeText(int32_t dtype) {
  if (dtype < 0 || dtype > static_cast<int32_t>(DType::kI32)) return absl::StrCat(dtype);
  return std::string(DTypeName(static_cast<DType>(dtype)));
}

std::string ReductionText(int32_t reduction) {
  if (reduction < 0 || reduction > static_cast<int32_t>(Reduction::kMin)) {
    return absl::StrCat(reduction);
  }
  return std::string(ReductionName(static_cast<Reduction>(reduction)));
}

std::string ShardText(const plan::Shard& shard) {
  std::string text = absl::StrCat(DTypeText(shard.dtype()), " ", List(shard.local()));
  const std::string local = List(shard.local());
  const std::string zeros = List(std::vector<int>(shard.local_size(), 0));
  if (List(shard.logical()) != local) absl::StrAppend(&text, " of ", List(shard.logical()));
  if (List(shard.offset()) != zeros) absl::StrAppend(&text, " at ", List(shard.offset()));
  if (List(shard.stride_per_micro()) != zeros) {
    absl::StrAppend(&text, " by ", List(shard.stride_per_micro()));
  }
  if (shard.partial() != 0) absl::StrAppend(&text, " partial ", ReductionText(shard.partial()));
  return text;
}

// How things of one kind are referred to: by name where that is enough, else by number.
std::vector<std::string> References(const std::vector<std::string>& names) {
  std::map<std::string, int> count;
  for (const std::string& name : names) ++count[name];
  std::vector<std::string> texts;
  for (size_t n = 0; n < names.size(); ++n) {
    const bool plain = !names[n].empty() && count[names[n]] == 1;
    texts.push_back(plain ? NameText(names[n]) : absl::StrCat("$", n));
  }
  return texts;
}

class ProgramPrinter {
 public:
  ProgramPrinter(const plan::Program& program, std::string* out) : program_(program), out_(*out) {
    std::vector<std::string> names;
    for (const plan::Register& x : program.registers()) names.push_back(x.name());
    registers_ = References(names);
    names.clear();
    for (const plan::Actor& x : program.actors()) names.push_back(x.name());
    actors_ = References(names);
    streams_ = References(plan_text::StreamNames(program));
  }

  void Print() {
    absl::StrAppend(&out_, "program ", NameText(program_.name()));
    Field("micro", program_.micro_batches(), 0);
    Field("predicted", program_.predicted_nanoseconds(), 0);
    out_ += "\n";
    for (int s = 0; s < program_.streams_size(); ++s) {
      absl::StrAppend(&out_, "stream ", streams_[s]);
      if (streams_[s][0] == '$') {
        absl::StrAppend(
            &out_, " device ", program_.streams(s).device(), " kind ",
            KindText(StreamKindName(program_.streams(s).kind()), program_.streams(s).kind()));
      }
      out_ += "\n";
    }
    for (const plan::Port& port : program_.feeds()) PrintPort("feeds", port);
    for (const plan::Port& port : program_.fetches()) PrintPort("fetches", port);
    PrintRegisters();
    PrintTemporaries();
    for (const plan::Actor& actor : program_.actors()) PrintActor(actor);
    for (int s = 0; s < program_.streams_size(); ++s) PrintOrder(s);
    for (const plan::ReuseEdge& reuse_edge : program_.reuse_edges()) {
      absl::StrAppend(&out_, "reuse ", PointText(reuse_edge.after()), " -> ",
                      PointText(reuse_edge.before()), reuse_edge.wraps() ? " wraps\n" : "\n");
    }
  }

 private:
  void Field(absl::string_view name, int64_t value, int64_t otherwise) {
    if (value != otherwise) absl::StrAppend(&out_, " ", name, " ", value);
  }

  std::string Actor(int32_t a) const {
    if (a < 0 || a >= program_.actors_size()) return absl::StrCat("$", a);
    return actors_[a];
  }
  std::string PointText(const plan::Point& p) const {
    return absl::StrCat(Actor(p.actor()), " ", p.firing(), " ", p.instruction());
  }

  void PrintPort(absl::string_view kind, const plan::Port& port) {
    absl::StrAppend(&out_, kind, " ", NameText(port.name()), " ", DTypeText(port.dtype()), " ",
                    List(port.shape()), "\n");
  }

  void PrintRegisters() {
    const std::vector<int> writers = plan_text::WritersOf(program_);
    for (int r = 0; r < program_.registers_size(); ++r) {
      const plan::Register& x = program_.registers(r);
      absl::StrAppend(&out_, "reg ", NameText(x.name()));
      Field("quota", x.quota(), 1);
      Field("bytes", x.bytes(), plan_text::kDefaultBytes);
      Field("every", x.emit_every(), 0);
      Field("tokens", x.initial_tokens(), 0);
      if (!x.variable().empty()) absl::StrAppend(&out_, " variable ", NameText(x.variable()));
      Field("producer", x.producer(), writers[r]);
      Field("device", x.device(), plan_text::DefaultDevice(program_, x.producer()));
      Field("number", x.number(), 0);
      if (x.slot_offsets_size() > 0) absl::StrAppend(&out_, " offsets ", List(x.slot_offsets()));
      out_ += "\n";
    }
    for (const plan::Ring& ring : program_.rings()) {
      absl::StrAppend(&out_, "ring ", NameText(ring.name()), " slots ", ring.slots());
      if (ring.slot_offsets_size() > 0) {
        absl::StrAppend(&out_, " offsets ", List(ring.slot_offsets()));
      }
      out_ += " registers";
      for (int32_t r : ring.registers()) absl::StrAppend(&out_, " ", Register(r));
      out_ += "\n";
    }
  }

  void PrintTemporaries() {
    const std::vector<int> users = plan_text::TemporaryUsersOf(program_);
    for (int n = 0; n < program_.temporaries_size(); ++n) {
      absl::StrAppend(&out_, "temporary %", n);
      Field("actor", program_.temporaries(n).actor(), users[n]);
      Field("bytes", program_.temporaries(n).bytes(), plan_text::kDefaultBytes);
      Field("offset", program_.temporaries(n).offset(), 0);
      out_ += "\n";
    }
  }

  std::string Register(int32_t r) const {
    if (r < 0 || r >= program_.registers_size()) return absl::StrCat("$", r);
    return registers_[r];
  }

  std::string OperandText(const plan::Operand& x) const {
    std::string text = x.updates() ? "&" : "";
    if (x.storage_case() == plan::Operand::kRegister) {
      text += Register(x.register_());
    } else if (x.storage_case() == plan::Operand::kTemporary) {
      absl::StrAppend(&text, "%", x.temporary());
    } else {
      text += "?";
    }
    if (x.offset() != 0) absl::StrAppend(&text, " + ", x.offset());
    if (x.takes() != 0) absl::StrAppend(&text, " takes ", x.takes());
    if (x.has_shard()) absl::StrAppend(&text, " : ", ShardText(x.shard()));
    return text;
  }

  std::string OperandsText(const google::protobuf::RepeatedPtrField<plan::Operand>& operands) {
    std::vector<std::string> texts;
    for (const plan::Operand& operand : operands) texts.push_back(OperandText(operand));
    return absl::StrJoin(texts, ", ");
  }

  void PrintActor(const plan::Actor& actor) {
    absl::StrAppend(&out_, "actor ", NameText(actor.name()), " on ",
                    actor.stream() >= 0 && actor.stream() < program_.streams_size()
                        ? streams_[actor.stream()]
                        : absl::StrCat("$", actor.stream()));
    Field("x", actor.firings_per_step(), 1);
    Field("priority", actor.priority(), 0);
    out_ += "\n";
    for (const plan::Instruction& x : actor.script()) PrintInstruction(x);
  }

  void PrintInstruction(const plan::Instruction& x) {
    out_ += "  ";
    if (x.outputs_size() > 0) absl::StrAppend(&out_, OperandsText(x.outputs()), " = ");
    // A kind has its name in place of an op where that reads back as it is.
    const bool named = !HasOp(x.kind()) && x.op().empty() && x.collective() == 0 &&
                       !InstructionKindName(x.kind()).empty();
    out_ += named ? std::string(InstructionKindName(x.kind())) : NameText(x.op());
    if (!x.attributes().empty()) absl::StrAppend(&out_, " ", Quoted(x.attributes()), " ");
    absl::StrAppend(&out_, "(", OperandsText(x.inputs()), ")");
    Field("cost", x.nanoseconds(), plan_text::kDefaultNanoseconds);
    Field("flops", x.flops(), 0);
    Field("bytes", x.bytes(), 0);
    Field("wire", x.wire_bytes(), 0);
    Field("scratch", x.scratch(), 0);
    if (x.has_scratch_offset()) absl::StrAppend(&out_, " at ", x.scratch_offset());
    Field("collective", x.collective(), 0);
    Field("port", x.port(), 0);
    Field("number", x.number(), 0);
    Field("calls", x.calls(), 0);
    if (x.reduction() != 0) absl::StrAppend(&out_, " reduction ", ReductionText(x.reduction()));
    if (x.fill_identity()) out_ += " fill";
    if (!named && (!HasOp(x.kind()) || x.kind() != KindOfText(x.op(), x.collective()))) {
      absl::StrAppend(&out_, " kind ", KindText(InstructionKindName(x.kind()), x.kind()));
    }
    if (!x.scope().empty()) absl::StrAppend(&out_, " scope ", Quoted(x.scope()));
    out_ += "\n";
    for (const plan::Region& region : x.regions()) PrintRegion(region);
  }

  void PrintRegion(const plan::Region& x) {
    absl::StrAppend(&out_, "    region ", List(x.begin()), " ", List(x.end()), " sources ",
                    List(x.sources()), " fold ", List(x.fold()), " from ",
                    List(x.source_offsets()));
    for (const plan::Strides& s : x.source_strides()) absl::StrAppend(&out_, " ", List(s.values()));
    absl::StrAppend(&out_, " to ", x.offset(), " ", List(x.strides()));
    Field("micro", x.micro(), 0);
    out_ += "\n";
  }

  void PrintOrder(int s) {
    const plan::Stream& stream = program_.streams(s);
    if (stream.order_size() == 0) return;
    absl::StrAppend(&out_, "order ", streams_[s]);
    for (const plan::ScheduleEntry& t : stream.order()) {
      absl::StrAppend(&out_, " (", Actor(t.actor()), " ", t.firing(), " ", t.from(), " ", t.to(),
                      ")");
    }
    out_ += "\n";
  }

  const plan::Program& program_;
  std::string& out_;
  std::vector<std::string> registers_, actors_, streams_;
};

}  // namespace

std::string PrintPlan(const plan::Plan& plan) {
  std::string out = "plan";
  if (!plan.digest().empty()) absl::StrAppend(&out, " digest ", Quoted(plan.digest()));
  if (plan.representatives_only()) out += " representatives_only";
  if (plan.rank() != 0) absl::StrAppend(&out, " rank ", plan.rank());
  out += "\n";
  for (const plan::Decision& decision : plan.decisions()) {
    absl::StrAppend(&out, "decision ", NameText(decision.what()), " ",
                    static_cast<int64_t>(decision.digest()), "\n");
  }
  for (const plan::Device& d : plan.devices()) {
    absl::StrAppend(&out, "device ", d.rank(), " ", d.local());
    if (d.kind() != plan::DEVICE_CPU) {
      absl::StrAppend(&out, " kind ", KindText(DeviceKindName(KindOf(d)), d.kind()));
    }
    if (d.variable_bytes() != 0) absl::StrAppend(&out, " variables ", d.variable_bytes());
    if (d.memory_bytes() != 0) absl::StrAppend(&out, " memory ", d.memory_bytes());
    out += "\n";
  }
  for (const plan::Variable& v : plan.variables()) {
    absl::StrAppend(&out, "variable ", NameText(v.name()), " ", DTypeText(v.dtype()), " ",
                    List(v.shape()));
    if (!v.init().empty()) absl::StrAppend(&out, " init ", Quoted(v.init()));
    if (!v.layout().empty()) absl::StrAppend(&out, " layout ", Quoted(v.layout()));
    out += "\n";
    for (const plan::VariableShard& p : v.shards()) {
      absl::StrAppend(&out, "  shard ", p.device());
      if (p.offset() != 0) absl::StrAppend(&out, " offset ", p.offset());
      if (p.replica()) out += " replica";
      if (p.has_shard()) absl::StrAppend(&out, " : ", ShardText(p.shard()));
      out += "\n";
    }
  }
  for (const plan::Program& program : plan.programs()) absl::StrAppend(&out, PrintProgram(program));
  return out;
}

std::string PrintProgram(const plan::Program& program) {
  std::string out;
  ProgramPrinter(program, &out).Print();
  return out;
}

}  // namespace sluice
