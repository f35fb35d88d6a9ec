#include "framework/plan/validate_collectives.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/plan/kinds.h"
#include "framework/plan/shard_proto.h"

namespace sluice {
namespace {

constexpr char kDevices[] = "devices=";

template <typename... Args>
absl::Status Wrong(const Args&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

// What a member says of the whole, whichever it is.
struct Said {
  std::vector<int32_t> devices;
  std::string op;
  int32_t reduction = 0;
  DType dtype = DType::kF32;
  int64_t part = 0;  // elements of a device's part of what is scattered or gathered

  std::string ToString() const {
    std::string text = absl::StrCat(op, " of parts of ", part, " ", DTypeName(dtype));
    if (reduction != 0) {
      absl::StrAppend(&text, ", ", ReductionName(static_cast<Reduction>(reduction)));
    }
    return text;
  }
};

absl::StatusOr<Said> WhatIsSaid(const plan::Plan& plan, const plan::Instruction& x) {
  Said said;
  ASSIGN_OR_RETURN(said.devices, DevicesOfCollective(plan, x));
  said.op = x.op();
  said.reduction = x.reduction();
  if (x.inputs_size() != 1 || x.outputs_size() != 1) {
    return Wrong("expected one input and one output, got ", x.inputs_size(), " and ",
                 x.outputs_size());
  }
  ASSIGN_OR_RETURN(const Shard input, ShardFromProto(x.inputs(0).shard()));
  ASSIGN_OR_RETURN(const Shard output, ShardFromProto(x.outputs(0).shard()));
  const auto n = static_cast<int64_t>(said.devices.size());
  said.dtype = input.dtype;
  const bool scatters = x.op() == "reduce_scatter", gathers = x.op() == "all_gather";
  if (!scatters && !gathers && x.op() != "all_reduce") {
    return Wrong("expected all_reduce, reduce_scatter or all_gather, got ", x.op());
  }
  said.part = scatters ? output.NumElements() : input.NumElements();
  const int64_t whole = scatters ? input.NumElements() : output.NumElements();
  if (input.dtype != output.dtype || whole != (scatters || gathers ? n : 1) * said.part) {
    return Wrong("expected parts of ", n, " devices, got ", input.ToString(), " into ",
                 output.ToString());
  }
  if (gathers != (said.reduction == static_cast<int32_t>(Reduction::kNone))) {
    return Wrong("expected ", gathers ? "no reduction" : "a reduction", ", got ",
                 ReductionName(static_cast<Reduction>(said.reduction)));
  }
  return said;
}

absl::Status CheckMembers(const plan::Plan& plan, const ProgramIndex& index,
                          absl::Span<const ProgramIndex::Member> members) {
  Said first;
  for (const ProgramIndex::Member& member : members) {
    const std::string who = index.Describe(member.actor, 0, member.instruction);
    absl::StatusOr<Said> said =
        WhatIsSaid(plan, index.instruction(member.actor, member.instruction));
    if (!said.ok()) return AddContext(said.status(), who);
    const int32_t device = index.device_of(member.actor);
    if (&member == &members.front()) first = *said;
    if (said->devices != first.devices || said->ToString() != first.ToString()) {
      return Wrong(who, ": expected ", first.ToString(), " and the group of the first member, got ",
                   said->ToString());
    }
    if (std::find(first.devices.begin(), first.devices.end(), device) == first.devices.end()) {
      return Wrong(who, ": device ", device, " is none of its group");
    }
  }
  // A device that stands for its stage does so for its peers; other ranks have their own members.
  if (plan.representatives_only()) return absl::OkStatus();
  const auto here =
      static_cast<size_t>(std::count_if(first.devices.begin(), first.devices.end(), [&](int32_t d) {
        return plan.devices(d).rank() == plan.rank();
      }));
  if (here == members.size()) return absl::OkStatus();
  return Wrong(index.Describe(members[0].actor, 0, members[0].instruction), ": expected ", here,
               " members, one a device of its group and this rank, got ", members.size());
}

}  // namespace

std::string CollectiveAttributes(absl::Span<const int32_t> devices) {
  Shape group;
  for (const int32_t device : devices) group.Append(device);
  return absl::StrCat(kDevices, group.ToString());
}

absl::StatusOr<std::vector<int32_t>> DevicesOfCollective(const plan::Plan& plan,
                                                         const plan::Instruction& instruction) {
  absl::string_view text = instruction.attributes();
  if (!absl::ConsumePrefix(&text, kDevices)) {
    return Wrong("expected the devices of its group, got \"", text, "\"");
  }
  ASSIGN_OR_RETURN(const Shape group, Shape::Parse(text));
  std::vector<int32_t> devices;
  for (const int64_t device : group) {
    const bool again = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (device < 0 || device >= plan.devices_size() || again) {
      return Wrong("devices: expected some of ", plan.devices_size(), ", each once, got ",
                   group.ToString());
    }
    devices.push_back(static_cast<int32_t>(device));
  }
  if (devices.empty()) return Wrong("devices: expected those of a group, got none");
  return devices;
}

absl::Status CheckCollectives(const plan::Plan& plan, const ProgramIndex& index) {
  for (int c = 0; c < index.num_collectives(); ++c) {
    const absl::Status status = CheckMembers(plan, index, index.Members(c));
    if (!status.ok()) {
      return AddContext(status, absl::StrCat("program \"", index.program().name(), "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
