#include "bench/op_operands.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/plan/shard_proto.h"

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

// Ids are rows of a table, labels columns of the logits, lengths those of samples without padding.
bool HasLengths(const KernelSpec& spec) { return absl::StartsWith(spec.op, "padded_attention"); }

// Whether an op reads what `sort_ids` gives, a place and an id for each row.
bool HasSortedIds(const KernelSpec& spec) {
  return absl::StrContains(spec.op, "_sparse") && spec.op != "add_sparse";
}

std::vector<int32_t> Sorted(const std::vector<int32_t>& ids) {
  std::vector<std::pair<int32_t, int32_t>> in_order;
  for (const int32_t id : ids) in_order.emplace_back(id, static_cast<int32_t>(in_order.size()));
  std::sort(in_order.begin(), in_order.end());
  std::vector<int32_t> entries;
  for (const auto& [id, place] : in_order) entries.insert(entries.end(), {place, id});
  return entries;
}

constexpr int32_t kSortedRows = 1000000;  // of the tables whose ids are sorted

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
      one.instruction.clear_scratch_offset();  // how much there is decides how a kernel goes
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

std::string KernelName(const KernelSpec& spec) {
  const auto shape = [](std::string* out, const Shard& shard) {
    absl::StrAppend(out, shard.local.ToString());
  };
  std::string name = absl::StrCat(spec.op, " ", absl::StrJoin(spec.inputs, " ", shape), " -> ",
                                  absl::StrJoin(spec.outputs, " ", shape));
  return name.size() > 76 ? absl::StrCat(name.substr(0, 73), "...") : name;
}

int64_t LastExtent(const Shard& shard) { return shard.logical[shard.logical.rank() - 1]; }

int32_t IdLimit(const KernelSpec& spec) {
  if (HasLengths(spec)) return static_cast<int32_t>(spec.inputs[0].logical[1]);
  if (spec.op == "sort_ids") return kSortedRows;
  const bool of_table =
      absl::StartsWith(spec.op, "embedding") || absl::StrContains(spec.op, "_sparse");
  if (!of_table) return static_cast<int32_t>(LastExtent(spec.inputs[0]));
  const Shard& table = spec.op == "embedding_gradient" ? spec.outputs[0] : spec.inputs[0];
  return static_cast<int32_t>(table.logical[table.logical.rank() - 2]);
}

TableUse TableUseOf(const KernelSpec& spec, const plan::Instruction& instruction) {
  if (spec.op == "embedding") {
    return {.ids = 1, .rows = spec.inputs[1].NumElements(), .tables = {0}, .writes = false};
  }
  if (!absl::StrContains(spec.op, "_sparse") || spec.op == "sum_squares_sparse") return {};
  TableUse use;
  use.writes = true;
  for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
    if (spec.inputs[i].dtype == DType::kI32 && use.ids < 0) use.ids = i;
    if (instruction.inputs(i).updates()) use.tables.push_back(i);
  }
  if (use.tables.empty()) return {};
  use.rows = spec.inputs[use.ids].NumElements() / (HasSortedIds(spec) ? 2 : 1);
  return use;
}

std::vector<int32_t> DrawIds(int64_t n, uint32_t limit, uint32_t seed) {
  std::vector<int32_t> ids(n);
  uint32_t state = seed;
  for (int32_t& id : ids) {
    state = state * 1664525 + 1013904223;
    id = static_cast<int32_t>((state >> 4) % limit);
  }
  return ids;
}

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

OperandPlaces PlaceOperands(const DistinctInstruction& one, const KernelSpec& spec,
                            int64_t alignment) {
  OperandPlaces places;
  std::vector<int64_t> at_place;
  const auto place = [&](const Shard& shard) {
    const size_t i = static_cast<size_t>(one.place[places.offsets.size()]);
    if (i == at_place.size()) {
      at_place.push_back(places.bytes);
      places.bytes += (shard.NumBytes() + 2 * alignment - 1) / alignment * alignment;
    }
    places.offsets.push_back(at_place[i]);
  };
  for (const Shard& shard : spec.inputs) place(shard);
  for (const Shard& shard : spec.outputs) place(shard);
  return places;
}

void FillValues(int64_t bytes, std::byte* memory) {
  float* const values = reinterpret_cast<float*>(memory);
  for (int64_t i = 0; i < bytes / 4; ++i) {
    values[i] = 0.25f + static_cast<float>(static_cast<uint32_t>(i) * 2654435761u >> 9) * 0x1p-24f;
  }
}

std::vector<int32_t> DrawIntegers(const KernelSpec& spec, size_t input, uint32_t seed) {
  const int64_t n = spec.inputs[input].NumElements();
  if (n == 1) return {1};  // the number of a step
  if (HasLengths(spec)) return std::vector<int32_t>(n, IdLimit(spec));
  if (HasSortedIds(spec)) return Sorted(DrawIds(n / 2, IdLimit(spec), seed));
  return DrawIds(n, IdLimit(spec), seed);
}

void FillOperands(const KernelSpec& spec, const OperandPlaces& places, uint32_t seed,
                  std::byte* memory) {
  FillValues(places.bytes, memory);
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].dtype != DType::kI32) continue;
    const std::vector<int32_t> drawn = DrawIntegers(spec, i, seed);
    std::copy(drawn.begin(), drawn.end(), reinterpret_cast<int32_t*>(memory + places.offsets[i]));
  }
}

}  // namespace sluice
