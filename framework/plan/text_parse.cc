#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/plan/kinds.h"
#include "framework/plan/text.h"
#include "framework/plan/text_fields.h"
#include "framework/plan/text_names.h"

namespace sluice {
namespace {

using Kind = TextScanner::Kind;

class PlanParser : private plan_text::FieldScanner {
 public:
  PlanParser(absl::string_view text, absl::string_view name) : FieldScanner(text, name) {}

  absl::StatusOr<plan::Plan> Parse() {
    while (!scanner_.AtEnd()) {
      if (scanner_.Accept(";")) continue;
      RETURN_IF_ERROR(Statement());
    }
    FinishProgram();
    if (!whole_) AddDevices();
    return std::move(plan_);
  }

 private:
  absl::Status Statement() {
    if (scanner_.Peek().kind != Kind::kIdentifier || !plan_text::IsKeyword(scanner_.Peek().text)) {
      return Instruction();
    }
    const TextScanner::Token token = scanner_.Next();
    const absl::string_view word = token.text;
    if (word == "plan") {
      whole_ = true;
      return Fields({Text("digest", plan_.mutable_digest()),
                     Does("representatives_only",
                          [this] {
                            plan_.set_representatives_only(true);
                            return absl::OkStatus();
                          }),
                     Of("rank", &plan_, &plan::Plan::set_rank)});
    }
    if (word == "decision") return Decision();
    if (word == "device") return Device();
    if (word == "variable") return Variable();
    if (word == "shard") return VariableShard(token);
    if (word == "program") return Program();
    Need();
    if (word == "stream") return Stream();
    if (word == "feeds") return Port(program_->add_feeds());
    if (word == "fetches") return Port(program_->add_fetches());
    if (word == "reg") return Register();
    if (word == "ring") return Ring();
    if (word == "temporary") return Local();
    if (word == "actor") return Actor();
    if (word == "order") return Order();
    if (word == "reuse") return ReuseEdge();
    return Region(token);
  }

  absl::Status Decision() {
    plan::Decision* decision = plan_.add_decisions();
    RETURN_IF_ERROR(NameTo("a decision", decision->mutable_what()));
    int64_t digest = 0;
    RETURN_IF_ERROR(Number("a digest", &digest));
    decision->set_digest(static_cast<uint64_t>(digest));
    return {};
  }

  absl::Status Device() {
    plan::Device* x = plan_.add_devices();
    int32_t number = 0;
    RETURN_IF_ERROR(Number("a rank", &number));
    x->set_rank(number);
    RETURN_IF_ERROR(Number("a local index", &number));
    x->set_local(number);
    return Fields({Of("variables", x, &plan::Device::set_variable_bytes),
                   Of("memory", x, &plan::Device::set_memory_bytes),
                   Does("kind", [=, this]() -> absl::Status {
                     int kind = 0;
                     RETURN_IF_ERROR(KindWord(
                         "a kind of device",
                         [](int n) { return DeviceKindName(static_cast<DeviceKind>(n)); }, &kind));
                     x->set_kind(static_cast<plan::DeviceKind>(kind));
                     return {};
                   })});
  }

  absl::Status Variable() {
    plan::Variable* v = plan_.add_variables();
    RETURN_IF_ERROR(NameTo("a variable", v->mutable_name()));
    int32_t dtype = 0;
    RETURN_IF_ERROR(DTypeWord(&dtype));
    v->set_dtype(dtype);
    RETURN_IF_ERROR(List(v->mutable_shape()));
    return Fields({Text("init", v->mutable_init()), Text("layout", v->mutable_layout())});
  }

  absl::Status VariableShard(const TextScanner::Token& token) {
    if (plan_.variables_size() == 0) return scanner_.ErrorAt(token, "a shard of no variable");
    plan::VariableShard* x = plan_.mutable_variables(plan_.variables_size() - 1)->add_shards();
    int32_t device = 0;
    RETURN_IF_ERROR(Number("a device", &device));
    x->set_device(device);
    return Fields({Of("offset", x, &plan::VariableShard::set_offset),
                   Does("replica",
                        [=] {
                          x->set_replica(true);
                          return absl::OkStatus();
                        }),
                   Does(":", [=, this] { return Shard(x->mutable_shard()); })});
  }

  absl::Status Program() {
    FinishProgram();
    Need();
    RETURN_IF_ERROR(NameTo("a program", program_->mutable_name()));
    return Fields({Of("micro", program_, &plan::Program::set_micro_batches),
                   Of("predicted", program_, &plan::Program::set_predicted_nanoseconds)});
  }

  // Begins a program if none is under way.
  void Need() {
    if (program_ != nullptr) return;
    program_ = plan_.add_programs();
    program_->set_name("main");
    register_.clear();
    actor_.clear();
    stream_.clear();
    local_.clear();
    declared_.clear();
    producer_given_.clear();
    device_given_.clear();
    actor_given_.clear();
  }

  // Fills in what the text left to be derived.
  void FinishProgram() {
    if (program_ == nullptr) return;
    const std::vector<int> writers = plan_text::WritersOf(*program_);
    for (int r = 0; r < program_->registers_size(); ++r) {
      plan::Register* x = program_->mutable_registers(r);
      if (!producer_given_[r]) x->set_producer(writers[r]);
      if (!device_given_[r]) {
        x->set_device(plan_text::DefaultDevice(*program_, x->producer()));
      }
    }
    const std::vector<int> users = plan_text::TemporaryUsersOf(*program_);
    for (int n = 0; n < program_->temporaries_size(); ++n) {
      if (!actor_given_[n]) program_->mutable_temporaries(n)->set_actor(users[n]);
    }
    program_ = nullptr;
  }

  void AddDevices() {
    int devices = plan_.devices_size();
    for (const plan::Program& program : plan_.programs()) {
      for (const plan::Stream& s : program.streams()) devices = std::max(devices, s.device() + 1);
      for (const plan::Register& r : program.registers()) {
        devices = std::max(devices, r.device() + 1);
      }
    }
    while (plan_.devices_size() < devices) {
      const int local = plan_.devices_size();
      plan_.add_devices()->set_local(local);
    }
  }

  int NewRegister(const std::string& name) {
    plan::Register* x = program_->add_registers();
    x->set_name(name);
    x->set_quota(1);
    x->set_bytes(plan_text::kDefaultBytes);
    producer_given_.push_back(false);
    device_given_.push_back(false);
    declared_.push_back(false);
    const int r = program_->registers_size() - 1;
    register_.emplace(name, r);
    return r;
  }

  int NewTemporary(const std::string& name) {
    program_->add_temporaries()->set_bytes(plan_text::kDefaultBytes);
    actor_given_.push_back(false);
    return local_[name] = program_->temporaries_size() - 1;
  }

  // "$n", or a name; `found` < 0 if the name is new.
  absl::Status Reference(absl::string_view what, const std::map<std::string, int>& names,
                         std::string* name, int* found) {
    *found = -1;
    if (scanner_.Accept("$")) return Number(absl::StrCat("the number of ", what), found);
    ASSIGN_OR_RETURN(*name, Name(what));
    if (auto it = names.find(*name); it != names.end()) *found = it->second;
    return {};
  }

  absl::Status RegisterReference(int* out) {
    std::string name;
    const bool numbered = scanner_.At("$");
    RETURN_IF_ERROR(Reference("a register", register_, &name, out));
    if (!numbered && *out < 0) *out = NewRegister(name);
    return {};
  }

  absl::Status StreamReference(int* out) {
    const TextScanner::Token token = scanner_.Peek();
    const bool numbered = scanner_.At("$");
    std::string name;
    RETURN_IF_ERROR(Reference("a stream", stream_, &name, out));
    if (numbered || *out >= 0) return {};
    const size_t dot = name.find('.');
    int32_t device = -1;
    if (dot == std::string::npos || name[0] != 'd' ||
        !absl::SimpleAtoi(absl::string_view(name).substr(1, dot - 1), &device)) {
      return scanner_.ErrorAt(
          token, absl::StrCat("expected a stream such as d0.compute, got \"", name, "\""));
    }
    const std::string word = name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
    plan::StreamKind kind;
    if (!ParseStreamKind(word, &kind)) {
      return scanner_.ErrorAt(
          token, absl::StrCat("expected a kind of stream such as compute, got \"", word, "\""));
    }
    plan::Stream* stream = program_->add_streams();
    stream->set_device(device);
    stream->set_kind(kind);
    *out = stream_[name] = program_->streams_size() - 1;
    return {};
  }

  absl::Status ActorReference(int* out) {
    const TextScanner::Token token = scanner_.Peek();
    const bool numbered = scanner_.At("$");
    std::string name;
    RETURN_IF_ERROR(Reference("an actor", actor_, &name, out));
    if (numbered || *out >= 0) return {};
    std::vector<std::string> names;
    for (const auto& entry : actor_) names.push_back(entry.first);
    return scanner_.ErrorAt(token,
                            absl::StrCat("no actor \"", name, "\"", DidYouMean(name, names)));
  }

  absl::Status Stream() {
    int s = -1;
    if (!scanner_.At("$")) return StreamReference(&s);
    scanner_.Next();
    RETURN_IF_ERROR(Number("the number of a stream", &s));
    plan::Stream* stream = program_->add_streams();
    if (s != program_->streams_size() - 1) return scanner_.Error("streams are not in order");
    RETURN_IF_ERROR(scanner_.Expect("device"));
    int32_t device = 0;
    RETURN_IF_ERROR(Number("a device", &device));
    stream->set_device(device);
    RETURN_IF_ERROR(scanner_.Expect("kind"));
    int kind = 0;
    RETURN_IF_ERROR(KindWord(
        "a kind of stream", [](int n) { return StreamKindName(static_cast<plan::StreamKind>(n)); },
        &kind));
    stream->set_kind(static_cast<plan::StreamKind>(kind));
    return {};
  }

  absl::Status Port(plan::Port* port) {
    RETURN_IF_ERROR(NameTo("a name", port->mutable_name()));
    int32_t dtype = 0;
    RETURN_IF_ERROR(DTypeWord(&dtype));
    port->set_dtype(dtype);
    return List(port->mutable_shape());
  }

  absl::Status Register() {
    ASSIGN_OR_RETURN(const std::string name, Name("a register"));
    auto it = register_.find(name);
    const bool fresh = name.empty() || it == register_.end() || declared_[it->second];
    const int r = fresh ? NewRegister(name) : it->second;
    declared_[r] = true;
    plan::Register* x = program_->mutable_registers(r);
    using P = plan::Register;
    const Field producer = Of("producer", x, &P::set_producer);
    const Field device = Of("device", x, &P::set_device);
    return Fields({Of("quota", x, &P::set_quota), Of("bytes", x, &P::set_bytes),
                   Of("every", x, &P::set_emit_every), Of("tokens", x, &P::set_initial_tokens),
                   Text("variable", x->mutable_variable()), Of("number", x, &P::set_number),
                   Lists("offsets", x->mutable_slot_offsets()),
                   Does("producer",
                        [&, r] {
                          producer_given_[r] = true;
                          return producer.read();
                        }),
                   Does("device", [&, r] {
                     device_given_[r] = true;
                     return device.read();
                   })});
  }

  absl::Status Ring() {
    plan::Ring* ring = program_->add_rings();
    RETURN_IF_ERROR(NameTo("a ring", ring->mutable_name()));
    const auto takes = [=, this]() -> absl::Status {
      while (LineGoesOn()) {
        int r = 0;
        RETURN_IF_ERROR(RegisterReference(&r));
        ring->add_registers(r);
      }
      return {};
    };
    return Fields({Of("slots", ring, &plan::Ring::set_slots),
                   Lists("offsets", ring->mutable_slot_offsets()), Does("registers", takes)});
  }

  absl::Status TemporaryName(int* out) {
    std::string name;
    if (scanner_.Peek().kind == Kind::kInteger) {
      name = std::string(scanner_.Next().text);
    } else {
      ASSIGN_OR_RETURN(name, scanner_.Identifier("a local"));
    }
    auto it = local_.find(name);
    *out = it == local_.end() ? NewTemporary(name) : it->second;
    return {};
  }

  absl::Status Local() {
    RETURN_IF_ERROR(scanner_.Expect("%"));
    int n = 0;
    RETURN_IF_ERROR(TemporaryName(&n));
    plan::Temporary* x = program_->mutable_temporaries(n);
    const Field actor = Of("actor", x, &plan::Temporary::set_actor);
    return Fields({Of("bytes", x, &plan::Temporary::set_bytes),
                   Of("offset", x, &plan::Temporary::set_offset), Does("actor", [&, n] {
                     actor_given_[n] = true;
                     return actor.read();
                   })});
  }

  absl::Status Actor() {
    plan::Actor* actor = program_->add_actors();
    RETURN_IF_ERROR(NameTo("an actor", actor->mutable_name()));
    actor_.emplace(actor->name(), program_->actors_size() - 1);
    RETURN_IF_ERROR(scanner_.Expect("on"));
    int s = 0;
    RETURN_IF_ERROR(StreamReference(&s));
    actor->set_stream(s);
    actor->set_firings_per_step(1);
    return Fields({Of("x", actor, &plan::Actor::set_firings_per_step),
                   Of("priority", actor, &plan::Actor::set_priority)});
  }

  // What follows a reference: "+ offset", and then "takes input" and ": shard".
  absl::Status OperandRest(plan::Operand* operand) {
    int64_t offset = 0;
    if (scanner_.Accept("+")) RETURN_IF_ERROR(Number("an offset", &offset));
    operand->set_offset(offset);
    return OperandEnd(operand);
  }
  absl::Status OperandEnd(plan::Operand* operand) {
    int32_t input = 0;
    if (scanner_.Accept("takes")) RETURN_IF_ERROR(Number("an input", &input));
    operand->set_takes(input);
    return scanner_.Accept(":") ? Shard(operand->mutable_shard()) : absl::OkStatus();
  }

  absl::Status Place(plan::Operand* operand) {
    if (scanner_.Accept("?")) return {};
    int n = 0;
    if (scanner_.Accept("%")) {
      RETURN_IF_ERROR(TemporaryName(&n));
      operand->set_temporary(n);
    } else {
      RETURN_IF_ERROR(RegisterReference(&n));
      operand->set_register_(n);
    }
    return {};
  }

  absl::Status OperandText(plan::Operand* operand) {
    operand->set_updates(scanner_.Accept("&"));
    RETURN_IF_ERROR(Place(operand));
    return OperandRest(operand);
  }

  absl::Status Instruction() {
    if (program_ == nullptr || program_->actors_size() == 0) {
      return scanner_.Error("expected a statement such as \"actor\"");
    }
    plan::Instruction* x = program_->mutable_actors(program_->actors_size() - 1)->add_script();
    x->set_nanoseconds(plan_text::kDefaultNanoseconds);
    std::optional<std::string> op;
    plan::Operand updated;
    bool updates = false;
    RETURN_IF_ERROR(Outputs(x, &op, &updated, &updates));
    if (!op) RETURN_IF_ERROR(NameTo("an op", &op.emplace()));
    if (scanner_.Peek().kind == Kind::kString) {
      ASSIGN_OR_RETURN(const std::string attributes, scanner_.String("attributes"));
      x->set_attributes(attributes);
    }
    RETURN_IF_ERROR(Arguments(x));
    if (updates) {
      if (updated.updates()) AppendAttribute(x, "subtract");
      updated.set_updates(true);
      *x->add_inputs() = updated;
    }
    bool kind_given = false;
    RETURN_IF_ERROR(InstructionFields(x, &kind_given));
    const plan::InstructionKind kind = plan_text::KindOfText(*op, x->collective());
    if (kind_given || HasOp(kind)) x->set_op(*op);
    if (!kind_given) x->set_kind(kind);
    return {};
  }

  // Reads up to "=" or, where there are no outputs, up to the op, which has been taken then. Of an
  // update, `updated->updates` says that it subtracts.
  absl::Status Outputs(plan::Instruction* x, std::optional<std::string>* op, plan::Operand* updated,
                       bool* updates) {
    while (true) {
      plan::Operand operand;
      if (scanner_.Peek().kind == Kind::kIdentifier || scanner_.Peek().kind == Kind::kString) {
        ASSIGN_OR_RETURN(const std::string name, Name("a register"));
        if (x->outputs_size() == 0 && (scanner_.At("(") || scanner_.Peek().kind == Kind::kString)) {
          *op = name;
          return {};
        }
        auto it = register_.find(name);
        operand.set_register_(it == register_.end() ? NewRegister(name) : it->second);
      } else {
        RETURN_IF_ERROR(Place(&operand));
      }
      const bool plus = scanner_.Accept("+");
      if (plus || scanner_.Accept("-")) {
        if (scanner_.Accept("=")) {
          *updated = operand;
          updated->set_updates(!plus);
          *updates = true;
          return {};
        }
        int64_t offset = 0;
        RETURN_IF_ERROR(Number("an offset", &offset));
        operand.set_offset(offset);
      }
      RETURN_IF_ERROR(OperandEnd(&operand));
      *x->add_outputs() = operand;
      if (scanner_.Accept(",")) continue;
      return scanner_.Expect("=");
    }
  }

  static void AppendAttribute(plan::Instruction* x, absl::string_view word) {
    absl::StrAppend(x->mutable_attributes(), x->attributes().empty() ? "" : " ", word);
  }

  absl::Status Arguments(plan::Instruction* x) {
    RETURN_IF_ERROR(scanner_.Expect("("));
    for (bool first = true; !scanner_.Accept(")"); first = false) {
      if (!first) RETURN_IF_ERROR(scanner_.Expect(","));
      if (scanner_.Peek().kind == Kind::kInteger) {
        AppendAttribute(x, scanner_.Next().text);
      } else {
        RETURN_IF_ERROR(OperandText(x->add_inputs()));
      }
    }
    return {};
  }

  absl::Status InstructionFields(plan::Instruction* x, bool* kind_given) {
    using P = plan::Instruction;
    const auto reduction = [=, this]() -> absl::Status {
      int32_t number = 0;
      RETURN_IF_ERROR(ReductionWord(&number));
      x->set_reduction(number);
      return {};
    };
    const auto fill = [=]() -> absl::Status {
      x->set_fill_identity(true);
      return {};
    };
    const auto kind = [=, this]() -> absl::Status {
      int number = 0;
      RETURN_IF_ERROR(KindWord(
          "a kind of instruction",
          [](int n) { return InstructionKindName(static_cast<plan::InstructionKind>(n)); },
          &number));
      x->set_kind(static_cast<plan::InstructionKind>(number));
      *kind_given = true;
      return {};
    };
    return Fields({Of("cost", x, &P::set_nanoseconds), Of("flops", x, &P::set_flops),
                   Of("bytes", x, &P::set_bytes), Of("wire", x, &P::set_wire_bytes),
                   Of("scratch", x, &P::set_scratch), Of("at", x, &P::set_scratch_offset),
                   Of("collective", x, &P::set_collective), Of("port", x, &P::set_port),
                   Of("number", x, &P::set_number), Of("calls", x, &P::set_calls),
                   Does("reduction", reduction), Does("fill", fill), Does("kind", kind),
                   Text("scope", x->mutable_scope())});
  }

  // One of the names of an enum whose numbers begin at 0 and have no gaps, or any number.
  absl::Status KindWord(absl::string_view what, absl::string_view (*name_of)(int), int* out) {
    if (scanner_.Peek().kind == Kind::kInteger) return Number(what, out);
    const TextScanner::Token token = scanner_.Peek();
    ASSIGN_OR_RETURN(const std::string word, scanner_.Identifier(what));
    std::vector<std::string> names;
    for (int n = 0; !name_of(n).empty(); ++n) {
      *out = n;
      if (name_of(n) == word) return {};
      names.emplace_back(name_of(n));
    }
    return scanner_.ErrorAt(
        token, absl::StrCat("expected ", what, ", got \"", word, "\"", DidYouMean(word, names)));
  }

  absl::Status Region(const TextScanner::Token& token) {
    if (program_->actors_size() == 0 ||
        program_->actors(program_->actors_size() - 1).script_size() == 0) {
      return scanner_.ErrorAt(token, "a region of no instruction");
    }
    plan::Actor* actor = program_->mutable_actors(program_->actors_size() - 1);
    plan::Region* x = actor->mutable_script(actor->script_size() - 1)->add_regions();
    RETURN_IF_ERROR(List(x->mutable_begin()));
    RETURN_IF_ERROR(List(x->mutable_end()));
    RETURN_IF_ERROR(scanner_.Expect("sources"));
    RETURN_IF_ERROR(List(x->mutable_sources()));
    RETURN_IF_ERROR(scanner_.Expect("fold"));
    RETURN_IF_ERROR(List(x->mutable_fold()));
    RETURN_IF_ERROR(scanner_.Expect("from"));
    RETURN_IF_ERROR(List(x->mutable_source_offsets()));
    while (scanner_.At("[")) RETURN_IF_ERROR(List(x->add_source_strides()->mutable_values()));
    RETURN_IF_ERROR(scanner_.Expect("to"));
    int64_t offset = 0;
    RETURN_IF_ERROR(Number("an offset", &offset));
    x->set_offset(offset);
    RETURN_IF_ERROR(List(x->mutable_strides()));
    return Fields({Of("micro", x, &plan::Region::set_micro)});
  }

  absl::Status Order() {
    int s = 0;
    RETURN_IF_ERROR(StreamReference(&s));
    if (s < 0 || s >= program_->streams_size()) return scanner_.Error("no such stream");
    while (scanner_.Accept("(")) {
      int a = 0;
      RETURN_IF_ERROR(ActorReference(&a));
      plan::ScheduleEntry* entry = program_->mutable_streams(s)->add_order();
      entry->set_actor(a);
      int32_t number = 0;
      for (auto set : {&plan::ScheduleEntry::set_firing, &plan::ScheduleEntry::set_from,
                       &plan::ScheduleEntry::set_to}) {
        RETURN_IF_ERROR(Number("a number", &number));
        (entry->*set)(number);
      }
      RETURN_IF_ERROR(scanner_.Expect(")"));
    }
    return {};
  }

  absl::Status PointText(plan::Point* point) {
    int a = 0;
    int32_t number = 0;
    RETURN_IF_ERROR(ActorReference(&a));
    point->set_actor(a);
    RETURN_IF_ERROR(Number("a firing", &number));
    point->set_firing(number);
    RETURN_IF_ERROR(Number("an instruction", &number));
    point->set_instruction(number);
    return {};
  }

  absl::Status ReuseEdge() {
    plan::ReuseEdge* reuse_edge = program_->add_reuse_edges();
    RETURN_IF_ERROR(PointText(reuse_edge->mutable_after()));
    RETURN_IF_ERROR(scanner_.Expect("->"));
    RETURN_IF_ERROR(PointText(reuse_edge->mutable_before()));
    reuse_edge->set_wraps(More("wraps"));
    return {};
  }

  plan::Plan plan_;
  bool whole_ = false;  // the text says what devices there are
  plan::Program* program_ = nullptr;
  std::map<std::string, int> register_, actor_, stream_, local_;
  std::vector<bool> declared_, producer_given_, device_given_, actor_given_;
};

}  // namespace

absl::StatusOr<plan::Plan> ParsePlan(absl::string_view text, absl::string_view name) {
  return PlanParser(text, name).Parse();
}

}  // namespace sluice
