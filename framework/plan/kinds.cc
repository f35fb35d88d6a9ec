#include "framework/plan/kinds.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

static_assert(static_cast<int>(DeviceKind::kCpu) == plan::DEVICE_CPU);
static_assert(static_cast<int>(DeviceKind::kCuda) == plan::DEVICE_CUDA);
static_assert(static_cast<int>(DeviceKind::kNull) == plan::DEVICE_NULL);
static_assert(static_cast<int>(DeviceKind::kAsync) == plan::DEVICE_ASYNC);

// The number, from 0 on, whose name this is.
template <typename Kind>
bool Parse(absl::string_view name, absl::string_view (*name_of)(Kind), Kind* kind) {
  for (int n = 0; !name_of(static_cast<Kind>(n)).empty(); ++n) {
    if (name_of(static_cast<Kind>(n)) != name) continue;
    *kind = static_cast<Kind>(n);
    return true;
  }
  return false;
}

}  // namespace

absl::string_view InstructionKindName(plan::InstructionKind kind) {
  switch (kind) {
    case plan::INSTRUCTION_KERNEL:
      return "kernel";
    case plan::INSTRUCTION_BEGIN:
      return "begin";
    case plan::INSTRUCTION_FEED:
      return "feed";
    case plan::INSTRUCTION_FETCH:
      return "fetch";
    case plan::INSTRUCTION_FOLD:
      return "fold";
    case plan::INSTRUCTION_ACCUMULATE:
      return "accumulate";
    case plan::INSTRUCTION_COPY:
      return "copy";
    case plan::INSTRUCTION_PULL:
      return "pull";
    case plan::INSTRUCTION_COLLECTIVE:
      return "collective";
    case plan::INSTRUCTION_REMOTE:
      return "remote";
    default:
      return "";
  }
}

absl::string_view StreamKindName(plan::StreamKind kind) {
  switch (kind) {
    case plan::STREAM_COMPUTE:
      return "compute";
    case plan::STREAM_COMM:
      return "comm";
    case plan::STREAM_HOST:
      return "host";
    case plan::STREAM_COPY:
      return "copy";
    case plan::STREAM_NET:
      return "net";
    case plan::STREAM_COLLECTIVE:
      return "collective";
    case plan::STREAM_COPY_OUT:
      return "copy_out";
    default:
      return "";
  }
}

bool ParseInstructionKind(absl::string_view name, plan::InstructionKind* kind) {
  return Parse(name, &InstructionKindName, kind);
}

bool ParseStreamKind(absl::string_view name, plan::StreamKind* kind) {
  return Parse(name, &StreamKindName, kind);
}

bool HasOp(plan::InstructionKind kind) {
  return kind == plan::INSTRUCTION_KERNEL || kind == plan::INSTRUCTION_COLLECTIVE;
}

std::string InstructionName(const plan::Instruction& instruction) {
  return HasOp(instruction.kind()) ? instruction.op()
                                   : std::string(InstructionKindName(instruction.kind()));
}

bool NeedsKernel(plan::InstructionKind kind) {
  return HasOp(kind) || kind == plan::INSTRUCTION_FOLD || kind == plan::INSTRUCTION_ACCUMULATE ||
         kind == plan::INSTRUCTION_COPY;
}

bool IsTransfer(plan::InstructionKind kind) {
  return kind == plan::INSTRUCTION_COPY || kind == plan::INSTRUCTION_PULL ||
         kind == plan::INSTRUCTION_COLLECTIVE || kind == plan::INSTRUCTION_REMOTE;
}

bool IsCopyStream(plan::StreamKind kind) {
  return kind == plan::STREAM_COPY || kind == plan::STREAM_COPY_OUT;
}

bool IsListed(plan::StreamKind kind) {
  return kind == plan::STREAM_COMPUTE || IsCopyStream(kind) || kind == plan::STREAM_COLLECTIVE;
}

DeviceKind KindOf(const plan::Device& device) { return static_cast<DeviceKind>(device.kind()); }

std::vector<int32_t> MemorySpaces(const plan::Plan& plan) {
  std::vector<int32_t> spaces;
  std::map<int32_t, int32_t> host_of;  // by rank
  for (int32_t d = 0; d < plan.devices_size(); ++d) {
    spaces.push_back(!IsHost(KindOf(plan.devices(d)))
                         ? d
                         : host_of.emplace(plan.devices(d).rank(), d).first->second);
  }
  return spaces;
}

std::string DeviceName(const plan::Device& device) {
  const DeviceKind kind = KindOf(device);
  return absl::StrCat(device.rank(), ":", kind == DeviceKind::kCpu ? "" : DeviceKindName(kind),
                      device.local());
}

}  // namespace sluice
