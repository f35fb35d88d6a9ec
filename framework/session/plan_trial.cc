#include "framework/session/plan_trial.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/data/dataset.h"
#include "framework/data/feed.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/runtime/runtime.h"
#include "framework/session/check_kernel.h"
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

// Samples of zeros, with a field for each feed of a program: what its port has behind the batch.
class Zeros final : public Dataset {
 public:
  explicit Zeros(const plan::Program& program) {
    for (const plan::Port& port : program.feeds()) {
      SampleField& field = fields_.emplace_back();
      field.name = port.name();
      field.dtype = static_cast<DType>(port.dtype());
      for (int d = 1; d < port.shape_size(); ++d) field.shape.Append(port.shape(d));
    }
  }
  int64_t num_samples() const override { return 3; }
  const std::vector<SampleField>& fields() const override { return fields_; }
  DataIdentity identity() const override { return {}; }
  absl::Status Fill(int field, absl::Span<const int64_t> samples, int64_t, const Box& box,
                    std::byte* to) const override {
    const Shape& shape = fields_[field].shape;
    SLUICE_CHECK(box.size() == static_cast<size_t>(shape.rank())) << BoxToString(box);
    for (size_t d = 0; d < box.size(); ++d) {
      SLUICE_CHECK(0 <= box[d].begin && box[d].begin <= box[d].end && box[d].end <= shape[d])
          << BoxToString(box) << " of a sample " << shape.ToString();
    }
    for (const int64_t sample : samples) SLUICE_CHECK(sample >= 0 && sample < num_samples());
    std::memset(to, 0, samples.size() * Volume(box) * SizeOf(fields_[field].dtype));
    return absl::OkStatus();
  }

 private:
  std::vector<SampleField> fields_;
};

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

absl::Status TryPlan(plan::Plan plan, plan::DeviceKind kind, Fed fed) {
  for (plan::Device& device : *plan.mutable_devices()) device.set_kind(kind);
  const plan::Plan tried = plan;
  RuntimeOptions options;
  options.workers = 2;
  options.threads_per_device = 1;
  options.check = CheckKernel;
  options.prepare = PrepareCpuKernel;
  options.init_thread = InitKernelThread;
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, StartPlan(std::move(plan), options));
  for (const plan::Program& program : tried.programs()) {
    std::vector<HostTensor> tensors;
    for (const plan::Port& port : program.feeds()) {
      tensors.emplace_back(static_cast<DType>(port.dtype()),
                           Shape(absl::MakeConstSpan(port.shape())));
    }
    const Zeros rows(program);
    Feeds feeds;
    for (int i = 0; i < program.feeds_size(); ++i) {
      const bool of_samples = fed == Fed::kRows && program.feeds(i).shape_size() > 0;
      const Feed feed = of_samples ? Feed(SampleRows{&rows, i, {}, 0}) : Feed(&tensors[i]);
      feeds.emplace_back(program.feeds(i).name(), feed);
    }
    for (int step = 0; step < 2; ++step) {
      RETURN_IF_ERROR(session->Step(program.name(), feeds));
      RETURN_IF_ERROR(session->Next().status());
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
