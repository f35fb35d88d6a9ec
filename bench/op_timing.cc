#include "bench/op_timing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/loaded_program.h"

namespace sluice {
namespace {

// Operands that lie at one address get one place.
std::vector<int> PlacesOf(const plan::Instruction& instruction) {
  std::vector<std::string> seen;
  std::vector<int> places;
  const auto add = [&](const plan::Operand& operand) {
    const std::string name = absl::StrCat(operand.storage_case(), ":", operand.register_(), ":",
                                          operand.temporary(), ":", operand.offset());
    const auto found = std::find(seen.begin(), seen.end(), name);
    places.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(name);
  };
  for (const plan::Operand& operand : instruction.inputs()) add(operand);
  for (const plan::Operand& operand : instruction.outputs()) add(operand);
  return places;
}

std::string NameOf(const KernelSpec& spec) {
  const auto shape = [](std::string* out, const Shard& shard) {
    absl::StrAppend(out, shard.local.ToString());
  };
  std::string name = absl::StrCat(spec.op, " ", absl::StrJoin(spec.inputs, " ", shape), " -> ",
                                  absl::StrJoin(spec.outputs, " ", shape));
  return name.size() > 76 ? absl::StrCat(name.substr(0, 73), "...") : name;
}

int64_t LastExtent(const Shard& shard) { return shard.logical[shard.logical.rank() - 1]; }

// Ids are rows of a table, labels columns of the logits, lengths those of samples without padding.
bool HasLengths(const KernelSpec& spec) { return absl::StartsWith(spec.op, "padded_attention"); }
int32_t IdLimit(const KernelSpec& spec) {
  if (HasLengths(spec)) return static_cast<int32_t>(spec.inputs[0].logical[1]);
  const bool of_table =
      absl::StartsWith(spec.op, "embedding") || absl::StrContains(spec.op, "_sparse");
  if (!of_table) return static_cast<int32_t>(LastExtent(spec.inputs[0]));
  const Shard& table = spec.op == "embedding_gradient" ? spec.outputs[0] : spec.inputs[0];
  return static_cast<int32_t>(table.logical[table.logical.rank() - 2]);
}

// Of an op that looks at rows of tables by their ids and leaves the others alone.
struct TableUse {
  int ids = -1;             // the operand that has them; -1: it is no such op
  std::vector<int> tables;  // operands
  bool writes = false;
};

TableUse TableUseOf(const KernelSpec& spec, const plan::Instruction& instruction) {
  if (spec.op == "embedding") return {.ids = 1, .tables = {0}, .writes = false};
  if (!absl::StrContains(spec.op, "_sparse") || spec.op == "sum_squares_sparse") return {};
  TableUse use;
  use.writes = true;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    if (spec.inputs[i].dtype == DType::kI32 && use.ids < 0) use.ids = i;
    if (instruction.inputs(i).updates()) use.tables.push_back(i);
  }
  return use.tables.empty() ? TableUse() : use;
}

constexpr int kTurns = 8;  // batches of ids, as bench/click_batches.h has

std::vector<int32_t> DrawIds(int64_t n, uint32_t limit, uint32_t seed) {
  std::vector<int32_t> ids(n);
  uint32_t state = seed;
  for (int32_t& id : ids) {
    state = state * 1664525 + 1013904223;
    id = static_cast<int32_t>((state >> 4) % limit);
  }
  return ids;
}

int64_t OperandBytes(const plan::Instruction& instruction) {
  int64_t bytes = 0;
  for (const auto* operands : {&instruction.inputs(), &instruction.outputs()}) {
    for (const plan::Operand& operand : *operands) {
      bytes += ShardFromProto(operand.shard()).value().NumBytes() + 128;
    }
  }
  return bytes;
}

// Bytes of a run that pass the memory's ports, of which some are stored where they were loaded
// from.
struct Traffic {
  int64_t loaded = 0, stored = 0, in_place = 0;
  int64_t total() const { return loaded + stored; }
};

// Of all operands but those that a table's rows are part of.
Traffic TrafficOf(const DistinctInstruction& one, const KernelSpec& spec, const TableUse& use) {
  Traffic traffic;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    if (std::find(use.tables.begin(), use.tables.end(), i) != use.tables.end()) continue;
    const int64_t bytes = spec.inputs[i].NumBytes();
    traffic.loaded += bytes;
    if (!one.instruction.inputs(i).updates()) continue;
    traffic.stored += bytes;
    traffic.in_place += bytes;
  }
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    const int64_t bytes = spec.outputs[o].NumBytes();
    traffic.stored += bytes;
    const auto inputs = one.place.begin() + static_cast<int64_t>(spec.inputs.size());
    if (std::find(one.place.begin(), inputs, inputs[o]) != inputs) traffic.in_place += bytes;
  }
  // Of the logits only those that are named are touched.
  if (spec.op == "ce_pick") traffic.loaded = 2 * traffic.stored;
  return traffic;
}

}  // namespace

bool IsProduct(absl::string_view op) {
  return absl::StartsWith(op, "matmul") || absl::StartsWith(op, "conv2d");
}

std::vector<DistinctInstruction> DistinctInstructions(const plan::Program& program) {
  std::map<std::string, DistinctInstruction> found;
  for (const plan::Actor& actor : program.actors()) {
    for (const plan::Instruction& planned : actor.script()) {
      DistinctInstruction one = {planned, PlacesOf(planned), 0};
      one.instruction.clear_scope();
      one.instruction.clear_nanoseconds();
      one.instruction.clear_scratch();
      for (auto* operands : {one.instruction.mutable_inputs(), one.instruction.mutable_outputs()}) {
        for (plan::Operand& operand : *operands) {
          operand.clear_storage();
          operand.clear_offset();
        }
      }
      const std::string key =
          absl::StrCat(absl::StrJoin(one.place, ","), one.instruction.SerializeAsString());
      found.emplace(key, one).first->second.count += actor.firings_per_step();
    }
  }
  std::vector<DistinctInstruction> all;
  for (const auto& [key, one] : found) all.push_back(one);
  return all;
}

absl::StatusOr<OpTimer> OpTimer::Create(int threads,
                                        const std::vector<DistinctInstruction>& instructions) {
  int64_t bytes = 0;
  for (const DistinctInstruction& one : instructions) {
    bytes = std::max(bytes, OperandBytes(one.instruction));
  }
  OpTimer made;
  made.thread_pool_ = std::make_unique<CpuThreadPool>(threads, InitKernelThread);
  made.limits_ = MeasureLimits(made.thread_pool_.get());
  ASSIGN_OR_RETURN(made.memory_, Memory::Allocate(bytes));
  return made;
}

absl::StatusOr<OpTime> OpTimer::Measure(const DistinctInstruction& one, double budget) {
  ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(one.instruction, thread_pool_->threads()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, PrepareCpuKernel(spec));
  std::vector<std::byte*> operands = Place(one, spec);
  std::vector<std::byte> scratch(kernel->scratch() + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, 1, aligned, space);
  // The second firing of a step: an accumulator is added to rather than set.
  CpuStream stream(thread_pool_.get());
  const KernelContext firing = {
      .step = 1, .micro = spec.op == "accumulate" ? 1 : 0, .stream = &stream};
  OpTime time = Describe(one, spec);
  const TableUse use = TableUseOf(spec, one.instruction);
  TablePass pass;
  pass.writes = use.writes;
  if (use.ids >= 0) {
    const int64_t n = spec.inputs[use.ids].NumElements();
    for (int turn = 0; turn < kTurns; ++turn) pass.ids.push_back(DrawIds(n, IdLimit(spec), turn));
    for (const int table : use.tables) {
      pass.tables.push_back(reinterpret_cast<float*>(operands[table]));
    }
    pass.width = LastExtent(spec.inputs[use.tables[0]]);
    time.memory_limit += MeasureTablePass(thread_pool_.get(), pass);
    time.of_tables = true;
  }
  absl::Status status;
  size_t turn = 0;
  time.seconds = TimeOf(budget, [&] {
    if (use.ids >= 0) {
      std::vector<int32_t>& ids = pass.ids[turn++ % pass.ids.size()];
      operands[use.ids] = reinterpret_cast<std::byte*>(ids.data());
    }
    status = kernel->Launch(firing, operands.data(), static_cast<std::byte*>(aligned));
  });
  RETURN_IF_ERROR(status);
  return time;
}

std::vector<std::byte*> OpTimer::Place(const DistinctInstruction& one, const KernelSpec& spec) {
  std::vector<std::byte*> operands, at_place;
  std::byte* next = memory_.data();
  const auto place = [&](const Shard& shard) {
    const size_t i = static_cast<size_t>(one.place[operands.size()]);
    if (i == at_place.size()) {
      at_place.push_back(next);
      next += (shard.NumBytes() + 127) / 64 * 64;
    }
    operands.push_back(at_place[i]);
  };
  for (const Shard& shard : spec.inputs) place(shard);
  for (const Shard& shard : spec.outputs) place(shard);
  // Whatever the last kernel left may be denormal, or beyond what a step ever sees.
  float* values = reinterpret_cast<float*>(memory_.data());
  for (int64_t i = 0; i < (next - memory_.data()) / 4; ++i) {
    values[i] = 0.25f + static_cast<float>(static_cast<uint32_t>(i) * 2654435761u >> 9) * 0x1p-24f;
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].dtype != DType::kI32) continue;
    int32_t* ids = reinterpret_cast<int32_t*>(operands[i]);
    const int64_t n = spec.inputs[i].NumElements();
    if (n == 1 || HasLengths(spec)) {  // the number of a step, or lengths
      std::fill(ids, ids + n, n == 1 ? 1 : IdLimit(spec));
    } else {
      const std::vector<int32_t> drawn = DrawIds(n, IdLimit(spec), 1);
      std::copy(drawn.begin(), drawn.end(), ids);
    }
  }
  return operands;
}

OpTime OpTimer::Describe(const DistinctInstruction& one, const KernelSpec& spec) const {
  OpTime time;
  time.name = NameOf(spec);
  time.count = one.count;
  time.flops = static_cast<double>(one.instruction.flops());
  const TableUse use = TableUseOf(spec, one.instruction);
  const Traffic traffic = TrafficOf(one, spec, use);
  const int64_t streamed = traffic.total() - traffic.in_place;
  time.bytes = static_cast<double>(traffic.total());
  time.working_set = static_cast<double>(streamed);
  if (traffic.total() > 0) {
    time.memory_limit = time.bytes / limits_.BytesPerSecond(streamed, traffic.loaded,
                                                            traffic.stored, traffic.in_place);
  }
  for (const int table : use.tables) {
    const int64_t rows = spec.inputs[use.ids].NumElements();
    time.bytes +=
        static_cast<double>((use.writes ? 2 : 1) * rows * 4 * LastExtent(spec.inputs[table]));
    time.working_set += static_cast<double>(spec.inputs[table].NumBytes());
  }
  if (IsProduct(spec.op) || absl::StrContains(spec.op, "attention")) {
    const bool low = spec.inputs[0].dtype == DType::kBF16;
    time.of_convolutions = absl::StartsWith(spec.op, "conv2d");
    const double matmul = low ? limits_.bf16_matmul_flops : limits_.matmul_flops;
    const double convolution = low ? limits_.bf16_convolution_flops : limits_.convolution_flops;
    time.arithmetic_limit = time.flops / (time.of_convolutions ? convolution : matmul);
  }
  return time;
}

}  // namespace sluice
