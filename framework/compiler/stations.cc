#include "framework/compiler/stations.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/plan/bytes.h"
#include "framework/plan/kinds.h"
#include "framework/plan/program_index.h"
#include "framework/plan/proof.h"
#include "framework/plan/text.h"
#include "framework/plan/validate.h"
#include "framework/plan/validate_places.h"

namespace sluice {
namespace {

// What a phase has not found yet is not there: neither by chance nor left over from another run.
absl::Status ExpectNone(absl::string_view what, int found) {
  if (found == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("expected no ", what, " yet, got ", found));
}

int CountEntries(const plan::Program& program) {
  int entries = 0;
  for (const plan::Stream& stream : program.streams()) entries += stream.order_size();
  return entries;
}

int CountOffsets(const plan::Program& program) {
  int offsets = 0;
  for (const plan::Register& reg : program.registers()) offsets += reg.slot_offsets_size();
  for (const plan::Ring& ring : program.rings()) offsets += ring.slot_offsets_size();
  return offsets;
}

absl::Status ExpectNotPlaced(const plan::Program& program) {
  RETURN_IF_ERROR(ExpectNone("offsets", CountOffsets(program)));
  return ExpectNone("reuse edges", program.reuse_edges_size());
}

// The order of every stream that takes its work in one.
absl::Status ExpectOrders(const ProgramIndex& index) {
  for (int s = 0; s < index.num_streams(); ++s) {
    if (!IsListed(index.stream_kind(s)) || index.listed(s) || index.StreamActors(s).empty()) {
      continue;
    }
    return absl::InternalError(
        absl::StrCat("expected an order of ", index.StreamName(s), ", which has actors, got none"));
  }
  return absl::OkStatus();
}

absl::Status ExpectSlots(const ProgramIndex& index) {
  for (int r = 0; r < index.num_registers(); ++r) {
    if (!index.program().registers(r).variable().empty()) continue;
    RETURN_IF_ERROR(AddContext(CheckSlotOffsets(index, r), index.RegisterName(r)));
  }
  return absl::OkStatus();
}

absl::Status VerifyStation(const TaskGraph& tasks) { return VerifyTaskGraph(tasks); }

absl::Status VerifyStation(const Schedule& schedule) {
  RETURN_IF_ERROR(ExpectNone("schedule entries", CountEntries(schedule.program)));
  RETURN_IF_ERROR(ExpectNotPlaced(schedule.program));
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(schedule.program));
  for (int32_t actor : schedule.actor_of) {
    if (actor >= 0 && actor < index.num_actors()) continue;
    return absl::InternalError(
        absl::StrCat("expected actors 0 to ", index.num_actors() - 1, " of tasks, got ", actor));
  }
  return CheckRates(index);
}

absl::Status VerifyStation(const Ordered& ordered) {
  RETURN_IF_ERROR(ExpectNotPlaced(ordered.program));
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(ordered.program));
  RETURN_IF_ERROR(ValidateProgram(index));
  RETURN_IF_ERROR(ExpectOrders(index));
  Certificate certificate;
  return ProveLive(index, &certificate);
}

absl::Status VerifyStation(const Placed& placed) {
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(placed.program));
  RETURN_IF_ERROR(ValidateProgram(index));
  RETURN_IF_ERROR(ExpectOrders(index));
  RETURN_IF_ERROR(ExpectSlots(index));
  Certificate certificate;
  RETURN_IF_ERROR(ProveLive(index, &certificate));
  return ProveBytes(index, certificate, placed.base);
}

std::string TextOf(const TaskGraph& tasks) { return PrintTaskGraph(tasks); }
std::string TextOf(const Schedule& schedule) { return PrintProgram(schedule.program); }
std::string TextOf(const Ordered& ordered) { return PrintProgram(ordered.program); }
std::string TextOf(const Placed& placed) {
  std::string text = PrintProgram(placed.program);
  for (size_t d = 0; d < placed.devices.size(); ++d) {
    const PackedDevice& device = placed.devices[d];
    if (device.packed == 0) continue;
    absl::StrAppend(&text, "packed d", d, " from ", placed.base[d], ": ", device.packed, " bytes, ",
                    device.live, " live at the peak, ", device.unshared, " if none were shared\n");
  }
  return text;
}

}  // namespace

absl::string_view StationName(const Station& station) {
  constexpr absl::string_view kNames[] = {"tasks", "schedule", "ordered", "placed"};
  static_assert(std::size(kNames) == std::variant_size_v<Station>);
  return kNames[station.index()];
}

std::string ToText(const Station& station) {
  return std::visit([](const auto* at) { return TextOf(*at); }, station);
}

absl::Status Verify(const Station& station) {
  return AddContext(std::visit([](const auto* at) { return VerifyStation(*at); }, station),
                    StationName(station));
}

}  // namespace sluice
