#include "framework/session/plan_trial.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/runtime/runtime.h"
#include "framework/session/checked_kernel.h"
#include "framework/session/plan_session.h"
#include "framework/tensor/array.h"

namespace sluice {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;
constexpr int64_t kMostExtent = 4096;
constexpr int64_t kMostInstances = 2048;
constexpr int kMostDevices = 16;

bool IsSmall(const google::protobuf::RepeatedField<int64_t>& extents) {
  int64_t elements = 1;
  for (const int64_t extent : extents) {
    if (extent > kMostExtent) return false;
    elements *= std::max<int64_t>(1, extent);
    if (elements > kMostBytes) return false;
  }
  return true;
}

bool IsSmall(const plan::Program& program) {
  int64_t instances = 0, slots = program.rings_size();
  for (const auto& actor : program.actors()) {
    instances += int64_t{actor.firings_per_step()} * actor.script_size();
    for (const auto& instruction : actor.script()) {
      for (const auto* operands : {&instruction.inputs(), &instruction.outputs()}) {
        for (const auto& operand : *operands) {
          if (!IsSmall(operand.shard().local())) return false;
        }
      }
    }
  }
  for (const auto& reg : program.registers()) slots += reg.quota();
  for (const auto& ring : program.rings()) slots += int64_t{ring.slots()} * ring.registers_size();
  for (const auto* ports : {&program.feeds(), &program.fetches()}) {
    for (const auto& port : *ports) {
      if (!IsSmall(port.shape())) return false;
    }
  }
  return instances <= kMostInstances && slots <= kMostInstances;
}

}  // namespace

bool IsSmall(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const auto& device : plan.devices()) {
    if (device.memory_bytes() > kMostBytes) return false;
    bytes += device.memory_bytes();
  }
  for (const auto& program : plan.programs()) {
    if (!IsSmall(program)) return false;
  }
  return plan.devices_size() <= kMostDevices && bytes <= kMostBytes;
}

absl::Status TryPlan(plan::Plan plan, plan::DeviceKind kind) {
  for (plan::Device& device : *plan.mutable_devices()) device.set_kind(kind);
  const plan::Plan tried = plan;
  RuntimeOptions options;
  options.workers = 2;
  options.threads_per_device = 1;
  options.prepare = PrepareCheckedKernel;
  options.init_thread = InitKernelThread;
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, StartPlan(std::move(plan), options));
  for (const plan::Program& program : tried.programs()) {
    std::vector<HostTensor> tensors;
    for (const plan::Port& port : program.feeds()) {
      tensors.emplace_back(static_cast<DType>(port.dtype()),
                           Shape(absl::MakeConstSpan(port.shape())));
    }
    Feeds feeds;
    for (int i = 0; i < program.feeds_size(); ++i) {
      feeds.emplace_back(program.feeds(i).name(), &tensors[i]);
    }
    for (int step = 0; step < 2; ++step) {
      RETURN_IF_ERROR(session->Step(program.name(), feeds));
      RETURN_IF_ERROR(session->Next().status());
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
