#include "framework/plan/validate_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/lifetimes.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

// What kernels walk has at most so many dimensions (kernels/strided_extent.h).
constexpr int kMostRank = 16;
// A fold holds at most so many pending values, and its loop walks at most so many arrays.
constexpr int kMostSources = 95;
// Sums of several of them stay within int64: bytes of one tensor or device, and estimates.
constexpr int64_t kMost = int64_t{1} << 56;

// Wide enough for a product of two numbers of the plan, and for a sum of such products.
using Wide = __int128;

// Where it is, a caller adds: a plan has many places, and few of them are wrong.
absl::Status Wrong(absl::string_view what, absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected ", expected, ", got ", got));
}

absl::Status CheckWithin(absl::string_view what, int64_t offset, int64_t bytes, int64_t of) {
  if (offset >= 0 && bytes >= 0 && bytes <= of && offset <= of - bytes) return absl::OkStatus();
  return Wrong(what, absl::StrCat("bytes within [0, ", of, ")"),
               absl::StrCat(bytes, " from ", offset));
}

absl::Status CheckAmount(absl::string_view what, int64_t amount) {
  if (amount >= 0 && amount <= kMost) return absl::OkStatus();
  return Wrong(what, absl::StrCat("a number in [0, ", kMost, "]"), absl::StrCat(amount));
}

template <typename T>
absl::Span<const T> All(const google::protobuf::RepeatedField<T>& values) {
  return absl::MakeConstSpan(values.data(), static_cast<size_t>(values.size()));
}

// Extents whose product, in bytes of any type, is a size that a tensor may have.
absl::Status CheckShape(absl::string_view what, absl::Span<const int64_t> extents) {
  bool sound = extents.size() <= kMostRank;
  Wide bytes = 8;
  for (const int64_t extent : extents) {
    if (!sound || extent < 0 || extent > kMost) {
      sound = false;
      break;
    }
    // An extent of 0 must not hide what the others would come to.
    bytes *= std::max<int64_t>(1, extent);
    sound = bytes <= kMost;
  }
  if (sound) return absl::OkStatus();
  return Wrong(what,
               absl::StrCat("at most ", kMostRank, " extents of 0 or more and ", kMost, " bytes"),
               Shape(extents).ToString());
}

// The shard is one of its logical tensor at each of `firings` micro-batches.
absl::StatusOr<Shard> CheckShard(absl::string_view what, const plan::Shard& proto,
                                 int64_t firings) {
  const absl::StatusOr<Shard> shard = ShardFromProto(proto);
  if (!shard.ok()) return AddContext(shard.status(), what);
  RETURN_IF_ERROR(CheckShape(what, shard->local.dims()));
  RETURN_IF_ERROR(CheckShape(what, shard->logical.dims()));
  for (int d = 0; d < shard->local.rank(); ++d) {
    const Wide first = shard->offset[d];
    const Wide last = first + Wide{shard->stride_per_micro[d]} * (firings - 1);
    if (std::min(first, last) >= 0 && std::max(first, last) + shard->local[d] <= shard->logical[d])
      continue;
    return Wrong(what,
                 absl::StrCat("dimension ", d, " to lie within [0, ", shard->logical[d], ") in ",
                              firings, " firings"),
                 absl::StrCat(shard->local[d], " from ", shard->offset[d], " and ",
                              shard->stride_per_micro[d], " more in each"));
  }
  return shard;
}

// Elements that a walk over `extents` with these strides reaches lie among `elements`.
absl::Status CheckWalk(absl::string_view what, absl::Span<const int64_t> extents, int64_t offset,
                       absl::Span<const int64_t> strides, int64_t elements) {
  if (strides.size() != extents.size()) {
    return Wrong(what, absl::StrCat(extents.size(), " strides"), absl::StrCat(strides.size()));
  }
  Wide least = offset, most = offset;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 0) return absl::OkStatus();
    const Wide reach = Wide{extents[d] - 1} * strides[d];
    (reach < 0 ? least : most) += reach;
  }
  if (least >= 0 && most < elements) return absl::OkStatus();
  return Wrong(what, absl::StrCat("elements within [0, ", elements, ")"),
               absl::StrCat("offset ", offset, " and strides ", Shape(strides).ToString(), " over ",
                            Shape(extents).ToString()));
}

// The largest power of 2 that divides an offset, of those that matter to elements.
int64_t AlignmentOf(int64_t offset) { return offset % 8 == 0 ? 8 : offset & (~offset + 1); }

// A postfix expression over `sources` that leaves one value.
bool IsFold(absl::Span<const int32_t> fold, int sources) {
  int64_t depth = 0;
  for (const int32_t word : fold) {
    if (word < -1 || word >= sources) return false;
    depth += word < 0 ? -1 : 1;
    if (depth < 1) return false;
  }
  return depth == 1;
}

// Of an instruction whose actor fires so often.
absl::Status CheckRegion(const plan::Region& region, plan::InstructionKind kind, int32_t firings,
                         absl::Span<const Shard> inputs, const Shard& output) {
  if (region.begin_size() != region.end_size() || region.begin_size() > kMostRank) {
    return Wrong("box", absl::StrCat("as many ends as begins, at most ", kMostRank),
                 absl::StrCat(region.begin_size(), " begins and ", region.end_size(), " ends"));
  }
  std::vector<int64_t> extents;
  for (int d = 0; d < region.begin_size(); ++d) {
    const Wide extent = Wide{region.end(d)} - region.begin(d);
    if (extent < 0 || extent > kMost) {
      return Wrong(absl::StrCat("dimension ", d), "an end behind the begin",
                   absl::StrCat("[", region.begin(d), ", ", region.end(d), ")"));
    }
    extents.push_back(static_cast<int64_t>(extent));
  }
  RETURN_IF_ERROR(CheckShape("box", extents));
  // Each element is written once, however the strides lie.
  if (Shape(extents).NumElements() > output.NumElements()) {
    return Wrong("box", absl::StrCat("at most the output's ", output.NumElements(), " elements"),
                 Shape(extents).ToString());
  }
  const int sources = region.sources_size();
  if (sources > kMostSources || region.source_offsets_size() != sources ||
      region.source_strides_size() != sources || !IsFold(All(region.fold()), sources) ||
      (kind == plan::INSTRUCTION_PULL && sources != 1)) {
    return Wrong(
        "sources", "an offset and strides of each, folded into one value",
        absl::StrCat(sources, " sources, ", region.source_offsets_size(), " offsets, ",
                     region.source_strides_size(), " strides and a fold of ", region.fold_size()));
  }
  for (int s = 0; s < sources; ++s) {
    const int32_t input = region.sources(s);
    if (input < 0 || input >= static_cast<int32_t>(inputs.size()) ||
        inputs[input].dtype != output.dtype) {
      return Wrong(absl::StrCat("source ", s), "an input of the output's dtype",
                   absl::StrCat("input ", input, " of ", inputs.size()));
    }
    RETURN_IF_ERROR(CheckWalk(absl::StrCat("source ", s), extents, region.source_offsets(s),
                              All(region.source_strides(s).values()), inputs[input].NumElements()));
  }
  if (region.micro() < 0 || region.micro() > firings) {
    return Wrong("micro", absl::StrCat("one of [0, ", firings, "]"), absl::StrCat(region.micro()));
  }
  if (kind == plan::INSTRUCTION_PULL) return absl::OkStatus();  // fills it from the start
  return CheckWalk("output", extents, region.offset(), All(region.strides()), output.NumElements());
}

class PlaceChecker {
 public:
  PlaceChecker(const plan::Plan& plan, const ProgramIndex& index)
      : plan_(plan), index_(index), program_(index.program()) {
    for (const plan::Variable& variable : plan.variables()) {
      for (const plan::VariableShard& shard : variable.shards()) {
        held_.emplace(std::pair(absl::string_view(variable.name()), shard.device()), &shard);
      }
    }
  }

  absl::Status Check() {
    if (program_.micro_batches() < 0) {
      return At(Wrong("micro-batches", "0 or more", absl::StrCat(program_.micro_batches())), "");
    }
    alignment_.assign(index_.num_registers(), 8);
    for (int r = 0; r < index_.num_registers(); ++r) {
      if (absl::Status s = CheckRegister(r); !s.ok()) return At(s, index_.RegisterName(r));
    }
    for (int n = 0; n < program_.temporaries_size(); ++n) {
      absl::Status s = CheckTemporary(program_.temporaries(n));
      if (!s.ok()) return At(s, absl::StrCat("temporary ", n));
    }
    for (const auto* ports : {&program_.feeds(), &program_.fetches()}) {
      for (const plan::Port& port : *ports) {
        absl::Status s = CheckPortType(port);
        if (!s.ok()) return At(s, absl::StrCat("port \"", port.name(), "\""));
      }
    }
    written_.assign(program_.fetches_size(), 0);
    for (int a = 0; a < index_.num_actors(); ++a) {
      for (int i = 0; i < index_.actor(a).length; ++i) {
        absl::Status s = CheckInstruction(a, i);
        if (!s.ok()) return At(s, index_.Describe(a, 0, i));
      }
    }
    return At(CheckFetched(), "");
  }

 private:
  absl::Status At(const absl::Status& status, absl::string_view where) const {
    return AddContext(status, absl::StrCat("program \"", program_.name(), "\"",
                                           where.empty() ? "" : ": ", where));
  }
  bool IsForeign(int32_t device) const { return plan_.devices(device).rank() != plan_.rank(); }

  absl::Status CheckRegister(int r);
  absl::Status CheckVariableRegister(int r);
  absl::Status CheckTemporary(const plan::Temporary& local);
  absl::Status CheckPortType(const plan::Port& port);
  absl::Status CheckInstruction(int a, int i);
  absl::Status CheckForm(int a, int i);
  absl::Status CheckOperand(const plan::Operand& operand, int32_t firings, bool touched,
                            Shard* shard);
  absl::Status CheckPulledBytes(int a, int i, const Shard& output);
  absl::Status CheckPort(int a, int i, const Shard& shard);
  absl::Status CheckFetched();

  const plan::Plan& plan_;
  const ProgramIndex& index_;
  const plan::Program& program_;
  // What a device holds of a variable: a large plan has as many registers of them as shards.
  absl::flat_hash_map<std::pair<absl::string_view, int32_t>, const plan::VariableShard*> held_;
  std::vector<int64_t> alignment_;  // by register: what divides where all of its slots begin
  std::vector<int64_t> written_;    // by fetch: elements that instructions write in a step
};

absl::Status PlaceChecker::CheckVariableRegister(int r) {
  const plan::Register& reg = program_.registers(r);
  const int32_t slots = index_.ring(index_.reg(r).ring).slots;
  const auto found = held_.find(std::pair(absl::string_view(reg.variable()), reg.device()));
  if (found == held_.end()) {
    return Wrong("variable",
                 absl::StrCat("a shard of variable \"", reg.variable(), "\" on device ",
                              DeviceName(plan_.devices(reg.device()))),
                 "none");
  }
  ASSIGN_OR_RETURN(const Shard held, ShardFromProto(found->second->shard()));
  alignment_[r] = AlignmentOf(found->second->offset());
  if (slots == 1 && reg.bytes() <= held.NumBytes()) return absl::OkStatus();
  return Wrong("variable",
               absl::StrCat("one slot of at most ", held.NumBytes(), " bytes of variable \"",
                            reg.variable(), "\""),
               absl::StrCat(slots, " of ", reg.bytes()));
}

absl::Status PlaceChecker::CheckRegister(int r) {
  const plan::Register& reg = program_.registers(r);
  alignment_[r] = 8;
  RETURN_IF_ERROR(CheckAmount("bytes", reg.bytes()));
  if (reg.producer() >= 0 &&
      IsForeign(reg.device()) != IsForeign(index_.device_of(reg.producer()))) {
    return Wrong("device", "one of its producer's rank", DeviceName(plan_.devices(reg.device())));
  }
  if (IsForeign(reg.device())) return absl::OkStatus();  // its bytes are another rank's to say
  if (!reg.variable().empty()) return CheckVariableRegister(r);
  if (reg.bytes() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSlotOffsets(index_, r));
  for (const int64_t offset : index_.SlotOffsets(r)) {
    RETURN_IF_ERROR(
        CheckWithin("slot", offset, reg.bytes(), plan_.devices(reg.device()).memory_bytes()));
    alignment_[r] = std::min(alignment_[r], AlignmentOf(offset));
  }
  return absl::OkStatus();
}

absl::Status PlaceChecker::CheckTemporary(const plan::Temporary& local) {
  if (local.actor() < 0 || local.actor() >= index_.num_actors()) {
    return Wrong("actor", absl::StrCat("one of ", index_.num_actors()),
                 absl::StrCat(local.actor()));
  }
  const plan::Device& device = plan_.devices(index_.device_of(local.actor()));
  RETURN_IF_ERROR(CheckAmount("bytes", local.bytes()));
  if (device.rank() != plan_.rank()) return absl::OkStatus();
  return CheckWithin("place", local.offset(), local.bytes(), device.memory_bytes());
}

absl::Status PlaceChecker::CheckPortType(const plan::Port& port) {
  if (!IsDType(port.dtype())) {
    return Wrong("dtype", "a known one", absl::StrCat(port.dtype()));
  }
  return CheckShape("shape", All(port.shape()));
}

// How many operands an instruction has, by its kind, and what may stand beside it in a script.
absl::Status PlaceChecker::CheckForm(int a, int i) {
  const plan::Instruction& x = index_.instruction(a, i);
  const auto wrong = [&](absl::string_view expected) {
    return Wrong(InstructionKindName(x.kind()), expected,
                 absl::StrCat(x.inputs_size(), " inputs and ", x.outputs_size(), " outputs"));
  };
  const bool foreign = IsForeign(index_.device_of(a));
  if (foreign != (x.kind() == plan::INSTRUCTION_REMOTE)) {
    return Wrong("rank",
                 foreign ? "remote instructions on other ranks' devices"
                         : "no remote instruction on a device of this rank",
                 InstructionKindName(x.kind()));
  }
  const bool hosts = x.kind() == plan::INSTRUCTION_FEED || x.kind() == plan::INSTRUCTION_FETCH;
  const plan::Device& device = plan_.devices(index_.device_of(a));
  if (hosts && !IsHost(KindOf(device))) {
    return Wrong(InstructionKindName(x.kind()), "a device whose memory is the host's",
                 DeviceName(device));
  }
  plan::InstructionKind named;
  switch (x.kind()) {
    case plan::INSTRUCTION_KERNEL:
    case plan::INSTRUCTION_COLLECTIVE:
      if (!ParseInstructionKind(x.op(), &named)) return absl::OkStatus();
      return Wrong("op", "the name of an op", absl::StrCat("a kind, ", x.op()));
    case plan::INSTRUCTION_FEED:
      return x.outputs_size() == 1 ? absl::OkStatus() : wrong("one output");
    case plan::INSTRUCTION_FETCH:
      return x.inputs_size() > 0 ? absl::OkStatus() : wrong("an input");
    case plan::INSTRUCTION_FOLD:
      return x.outputs_size() == 1 ? absl::OkStatus() : wrong("one output");
    case plan::INSTRUCTION_ACCUMULATE:
    case plan::INSTRUCTION_COPY:
      if (x.outputs_size() == 1 && (x.inputs_size() == 1 || x.regions_size() > 0)) {
        return absl::OkStatus();
      }
      return wrong("one input and one output");
    case plan::INSTRUCTION_PULL:
    case plan::INSTRUCTION_REMOTE:
      break;
    default:
      return absl::OkStatus();
  }
  const bool pulls = x.kind() == plan::INSTRUCTION_PULL;
  const auto is_register = [](const auto& operands) {
    return operands.size() == 1 && operands[0].storage_case() == plan::Operand::kRegister;
  };
  if (index_.actor(a).length != 1 || (!is_register(x.inputs()) && !is_register(x.outputs())) ||
      (pulls && !(is_register(x.inputs()) && is_register(x.outputs()) &&
                  program_.registers(x.inputs(0).register_()).producer() >= 0)) ||
      (x.inputs_size() > 0 && index_.ConsumersOf(a).empty())) {
    return wrong("an actor of it alone, that reads and writes registers");
  }
  return absl::OkStatus();
}

// Of an operand that is not `touched` only the token counts, and its type may be anything sound.
absl::Status PlaceChecker::CheckOperand(const plan::Operand& operand, int32_t firings, bool touched,
                                        Shard* shard) {
  ASSIGN_OR_RETURN(*shard, CheckShard("shard", operand.shard(), touched ? firings : 1));
  RETURN_IF_ERROR(CheckAmount("offset", operand.offset()));
  const bool in_register = operand.storage_case() == plan::Operand::kRegister;
  int64_t bytes = 0, alignment = AlignmentOf(operand.offset());
  if (in_register) {
    const plan::Register& reg = program_.registers(operand.register_());
    if (!touched || IsForeign(reg.device())) return absl::OkStatus();
    bytes = reg.bytes();
    alignment = std::min(alignment, alignment_[operand.register_()]);
  } else {
    const plan::Temporary& local = program_.temporaries(operand.temporary());
    bytes = local.bytes();
    alignment = std::min(alignment, AlignmentOf(local.offset()));
  }
  const auto where = [&] {
    return in_register ? index_.RegisterName(operand.register_())
                       : absl::StrCat("temporary ", operand.temporary());
  };
  if (const absl::Status s = CheckWithin("place", operand.offset(), shard->NumBytes(), bytes);
      !s.ok()) {
    return AddContext(s, where());
  }
  if (alignment % SizeOf(shard->dtype) == 0 || shard->NumBytes() == 0) return absl::OkStatus();
  return AddContext(Wrong("place", absl::StrCat("a multiple of ", SizeOf(shard->dtype)),
                          absl::StrCat("one of ", alignment)),
                    where());
}

absl::Status PlaceChecker::CheckPulledBytes(int a, int i, const Shard& output) {
  Wide elements = 0;
  for (const plan::Region& region : index_.instruction(a, i).regions()) {
    Wide box = 1;
    for (int d = 0; d < region.begin_size(); ++d) box *= region.end(d) - region.begin(d);
    elements += box;
  }
  if (elements <= output.NumElements()) return absl::OkStatus();
  return Wrong("regions", absl::StrCat("at most ", output.NumElements(), " elements"), "more");
}

absl::Status PlaceChecker::CheckPort(int a, int i, const Shard& shard) {
  const plan::Instruction& x = index_.instruction(a, i);
  const bool feeds = x.kind() == plan::INSTRUCTION_FEED;
  const auto& ports = feeds ? program_.feeds() : program_.fetches();
  if (x.port() < 0 || x.port() >= ports.size()) {
    return Wrong("port", absl::StrCat("one of ", ports.size()), absl::StrCat(x.port()));
  }
  const plan::Port& port = ports[x.port()];
  const Shape shape(All(port.shape()));
  if (static_cast<DType>(port.dtype()) != shard.dtype || shape != shard.logical) {
    return Wrong(absl::StrCat("port \"", port.name(), "\""),
                 absl::StrCat("an operand of ", DTypeName(static_cast<DType>(port.dtype())),
                              shape.ToString()),
                 absl::StrCat(DTypeName(shard.dtype), shard.logical.ToString()));
  }
  if (!feeds) {
    const Wide written = Wide{shard.NumElements()} * index_.actor(a).firings + written_[x.port()];
    written_[x.port()] = static_cast<int64_t>(std::min<Wide>(written, kMost));
  }
  return absl::OkStatus();
}

// The host holds all of a fetch's tensor, so its size is that of what is there to be fetched. Of
// several ranks, one alone has the instructions.
absl::Status PlaceChecker::CheckFetched() {
  for (const plan::Device& device : plan_.devices()) {
    if (device.rank() != plan_.rank()) return absl::OkStatus();
  }
  for (int f = 0; f < program_.fetches_size(); ++f) {
    const int64_t elements = Shape(All(program_.fetches(f).shape())).NumElements();
    if (written_[f] >= elements) continue;
    return Wrong(absl::StrCat("fetch \"", program_.fetches(f).name(), "\""),
                 absl::StrCat("instructions that write its ", elements, " elements"),
                 absl::StrCat(written_[f]));
  }
  return absl::OkStatus();
}

absl::Status PlaceChecker::CheckInstruction(int a, int i) {
  const plan::Instruction& x = index_.instruction(a, i);
  for (const auto& [what, amount] :
       {std::pair("flops", x.flops()), std::pair("bytes", x.bytes()),
        std::pair("scratch", x.scratch()), std::pair("nanoseconds", x.nanoseconds()),
        std::pair("wire bytes", x.wire_bytes()),
        std::pair("cold nanoseconds", x.cold_nanoseconds())}) {
    RETURN_IF_ERROR(CheckAmount(what, amount));
  }
  const plan::Device& device = plan_.devices(index_.device_of(a));
  if (x.has_scratch_offset() && device.rank() == plan_.rank()) {
    RETURN_IF_ERROR(CheckWithin("scratch", x.scratch_offset(), x.scratch(), device.memory_bytes()));
    if (x.scratch_offset() % kScratchAlignment != 0) {
      return Wrong("scratch", absl::StrCat("a place at a multiple of ", kScratchAlignment),
                   absl::StrCat(x.scratch_offset()));
    }
  }
  if (x.reduction() < 0 || x.reduction() > static_cast<int32_t>(Reduction::kMin)) {
    return Wrong("reduction", "a known one", absl::StrCat(x.reduction()));
  }
  if (x.calls() < 0 || (x.calls() > 1 && x.kind() != plan::INSTRUCTION_KERNEL) ||
      (x.calls() > 1 && (x.inputs_size() % x.calls() != 0 || x.outputs_size() % x.calls() != 0))) {
    return Wrong("calls", "1, or of a kernel a number that divides its inputs and outputs",
                 absl::StrCat(x.calls()));
  }
  RETURN_IF_ERROR(CheckForm(a, i));
  const plan::InstructionKind kind = x.kind();
  const bool runs = NeedsKernel(kind);
  std::vector<Shard> inputs(x.inputs_size()), outputs(x.outputs_size());
  const int32_t firings = index_.actor(a).firings;
  for (int n = 0; n < x.inputs_size(); ++n) {
    const bool touched = runs || (kind == plan::INSTRUCTION_FETCH && n == 0);
    const absl::Status status = CheckOperand(x.inputs(n), firings, touched, &inputs[n]);
    if (!status.ok()) return AddContext(status, absl::StrCat("input ", n));
  }
  for (int n = 0; n < x.outputs_size(); ++n) {
    const bool touched = runs || kind == plan::INSTRUCTION_FEED || kind == plan::INSTRUCTION_PULL;
    const absl::Status status = CheckOperand(x.outputs(n), firings, touched, &outputs[n]);
    if (!status.ok()) return AddContext(status, absl::StrCat("output ", n));
  }
  const bool same_size = (kind == plan::INSTRUCTION_ACCUMULATE || kind == plan::INSTRUCTION_COPY) &&
                         x.regions_size() == 0;
  if (same_size && (inputs[0].dtype != outputs[0].dtype ||
                    inputs[0].NumElements() != outputs[0].NumElements())) {
    return Wrong("output", inputs[0].ToString(), outputs[0].ToString());
  }
  if (kind == plan::INSTRUCTION_FEED) return CheckPort(a, i, outputs[0]);
  if (kind == plan::INSTRUCTION_FETCH) return CheckPort(a, i, inputs[0]);
  if (x.regions_size() == 0) return absl::OkStatus();
  if (kind != plan::INSTRUCTION_FOLD && kind != plan::INSTRUCTION_COPY &&
      kind != plan::INSTRUCTION_PULL) {
    return Wrong("regions", "none but of a fold, copy or pull", InstructionKindName(kind));
  }
  for (int n = 0; n < x.regions_size(); ++n) {
    const absl::Status status = CheckRegion(x.regions(n), kind, firings, inputs, outputs[0]);
    if (!status.ok()) return AddContext(status, absl::StrCat("region ", n));
  }
  return kind == plan::INSTRUCTION_PULL ? CheckPulledBytes(a, i, outputs[0]) : absl::OkStatus();
}

absl::Status CheckDevices(const plan::Plan& plan) {
  // What counts ranks and devices does so in int32.
  constexpr int32_t kMostRanks = 1 << 20;
  if (plan.rank() < 0 || plan.rank() >= kMostRanks) {
    return Wrong("plan: rank", absl::StrCat("one of ", kMostRanks), absl::StrCat(plan.rank()));
  }
  for (const plan::Device& device : plan.devices()) {
    absl::Status status = CheckAmount("memory", device.memory_bytes());
    if (device.rank() < 0 || device.rank() >= kMostRanks || device.local() < 0) {
      status = Wrong("rank and number", absl::StrCat("one of ", kMostRanks, " ranks"),
                     absl::StrCat(device.rank(), " and ", device.local()));
    }
    if (status.ok()) {
      status = CheckWithin("variables", 0, device.variable_bytes(), device.memory_bytes());
    }
    if (!status.ok()) return AddContext(status, absl::StrCat("plan: device ", DeviceName(device)));
  }
  return absl::OkStatus();
}

// The places of variables' shards on one device.
struct Taken {
  int64_t begin, end;
  int variable;
  friend auto operator<=>(const Taken&, const Taken&) = default;
};

absl::Status CheckVariable(const plan::Plan& plan, int v,
                           std::map<int32_t, std::vector<Taken>>* places) {
  const plan::Variable& variable = plan.variables(v);
  if (variable.dtype() < 0 || variable.dtype() > static_cast<int32_t>(DType::kI32)) {
    return Wrong("dtype", "a known one", absl::StrCat(variable.dtype()));
  }
  RETURN_IF_ERROR(CheckShape("shape", All(variable.shape())));
  const Shape shape(All(variable.shape()));
  std::set<int32_t> on;
  for (int p = 0; p < variable.shards_size(); ++p) {
    const plan::VariableShard& place = variable.shards(p);
    const std::string what = absl::StrCat("shard ", p);
    ASSIGN_OR_RETURN(const Shard shard, CheckShard(what, place.shard(), 1));
    if (!on.insert(place.device()).second || variable.dtype() != place.shard().dtype() ||
        shard.logical != shape) {
      return Wrong(what,
                   absl::StrCat("the one on device ", place.device(), ", of ",
                                DTypeName(static_cast<DType>(variable.dtype())), shape.ToString()),
                   shard.ToString());
    }
    RETURN_IF_ERROR(CheckWithin(what, place.offset(), shard.NumBytes(),
                                plan.devices(place.device()).variable_bytes()));
    if (AlignmentOf(place.offset()) % SizeOf(shard.dtype) != 0) {
      return Wrong(what, absl::StrCat("an offset that is a multiple of ", SizeOf(shard.dtype)),
                   absl::StrCat(place.offset()));
    }
    if (shard.NumBytes() == 0) continue;
    (*places)[place.device()].push_back({place.offset(), place.offset() + shard.NumBytes(), v});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSlotOffsets(const ProgramIndex& index, int r) {
  const int32_t slots = index.ring(index.reg(r).ring).slots;
  const int offsets = index.SlotOffsets(r).size();
  if (offsets == slots) return absl::OkStatus();
  return Wrong("slot offsets", absl::StrCat(slots), absl::StrCat(offsets));
}

absl::Status CheckVariables(const plan::Plan& plan) {
  RETURN_IF_ERROR(CheckDevices(plan));
  const auto at = [&](int v, const absl::Status& status) {
    return AddContext(status, absl::StrCat("plan: variable \"", plan.variables(v).name(), "\""));
  };
  std::set<std::string> names;
  std::map<int32_t, std::vector<Taken>> places;
  for (int v = 0; v < plan.variables_size(); ++v) {
    if (!names.insert(plan.variables(v).name()).second) {
      return at(v, Wrong("name", "one of its own", "another variable's"));
    }
    RETURN_IF_ERROR(at(v, CheckVariable(plan, v, &places)));
  }
  for (auto& [device, taken] : places) {
    std::sort(taken.begin(), taken.end());
    for (size_t n = 1; n < taken.size(); ++n) {
      if (taken[n].begin >= taken[n - 1].end) continue;
      return at(taken[n].variable,
                Wrong(absl::StrCat("place on device ", device), "bytes of its own",
                      absl::StrCat("some of variable \"",
                                   plan.variables(taken[n - 1].variable).name(), "\"")));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(const plan::Plan& plan, const ProgramIndex& index) {
  return PlaceChecker(plan, index).Check();
}

}  // namespace sluice
