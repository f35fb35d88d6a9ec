#include "framework/conformance/kernel_run.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cpu_thread_pool.h"
#include "framework/kernels/cpu/library_call.h"

namespace sluice {
namespace {

Shard ShardOf(const KernelOperand& operand, bool by_micro, int32_t micro) {
  Shard shard = Shard::Whole(operand.logical.dtype, operand.logical.shape);
  shard.local = ShapeOf(operand.box);
  for (int d = 0; d < shard.local.rank(); ++d) {
    const int64_t begin = operand.box[d].begin, size = operand.box[d].size();
    if (by_micro && begin == micro * size && size < shard.logical[d]) {
      shard.stride_per_micro[d] = size;
    } else {
      shard.offset[d] = begin;
    }
  }
  return shard;
}

// 64-byte aligned bytes that start as 0xff, and a guard behind them.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(bytes), storage_(bytes + 128, std::byte{0xff}) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + (64 - address % 64) % 64;
  }
  std::byte* data() { return data_; }
  bool GuardHolds() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + 64,
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  int64_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_;
};

KernelSpec SpecOf(const KernelCall& call, DeviceKind kind) {
  KernelSpec spec;
  spec.op = call.op;
  spec.attributes = call.attributes;
  spec.threads = call.threads;
  spec.calls = call.calls;
  spec.most_scratch = call.most_scratch;
  spec.alignment = call.alignment;
  spec.device = kind;
  spec.updates = call.updates;
  spec.updates.resize(call.inputs.size());
  spec.takes = call.takes;
  spec.reduction = call.reduction;
  spec.fill_identity = call.fill_identity;
  spec.regions = call.regions;
  for (const KernelOperand& x : call.inputs) {
    spec.inputs.push_back(ShardOf(x, call.by_micro, call.micro));
  }
  for (const KernelOperand& y : call.outputs) {
    spec.outputs.push_back(ShardOf(y, call.by_micro, call.micro));
  }
  return spec;
}

// fn(operand, what it starts as), of those for which that is said.
void ForEachStart(const KernelCall& call,
                  const std::function<void(size_t operand, const HostTensor& start)>& fn) {
  const size_t inputs = call.inputs.size();
  for (size_t i = 0; i < inputs + call.outputs.size(); ++i) {
    const KernelOperand& operand = i < inputs ? call.inputs[i] : call.outputs[i - inputs];
    if (operand.array.values.empty()) continue;
    fn(i, FromArray(operand.array, operand.logical.dtype));
  }
}

KernelContext FiringOf(const KernelCall& call, Stream* stream) {
  KernelContext firing;
  firing.step = call.step;
  firing.micro = call.micro;
  firing.seed = call.seed;
  firing.stream = stream;
  return firing;
}

// What lies at each operand, inputs and then outputs.
KernelRun Read(const KernelSpec& spec, int64_t scratch,
               const std::function<void(size_t operand, absl::Span<std::byte> to)>& copy) {
  KernelRun run;
  run.scratch = scratch;
  const auto read = [&](size_t i, const Shard& shard) {
    HostTensor host(shard.dtype, shard.local);
    copy(i, absl::MakeSpan(host.bytes));
    run.bytes.push_back(host);
    return ToArray(host);
  };
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    run.outputs.push_back(read(spec.inputs.size() + i, spec.outputs[i]));
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) run.updated.push_back(read(i, spec.inputs[i]));
  return run;
}

// The operand whose bytes the one with this number has, inputs first: its own, or an input's.
size_t PlaceOf(const KernelSpec& spec, size_t operand) {
  const size_t inputs = spec.inputs.size();
  if (operand < inputs || operand - inputs >= spec.takes.size()) return operand;
  const int taken = spec.takes[operand - inputs];
  return taken > 0 ? static_cast<size_t>(taken) - 1 : operand;
}

// Operands in a device's memory, with bytes between them that stay as they are.
class DeviceOperands {
 public:
  explicit DeviceOperands(const KernelSpec& spec) : alignment_(spec.alignment) {
    for (const Shard& shard : spec.inputs) Add(shard.NumBytes());
    for (const Shard& shard : spec.outputs) Add(shard.NumBytes());
    for (size_t i = 0; i < offsets_.size(); ++i) place_.push_back(PlaceOf(spec, i));
  }
  int64_t bytes() const { return bytes_; }
  std::vector<std::byte*> At(std::byte* memory) const {
    std::vector<std::byte*> operands;
    for (const size_t place : place_) operands.push_back(memory + offsets_[place]);
    return operands;
  }
  int64_t offset(size_t operand) const { return offsets_[place_[operand]]; }
  // `memory`: a copy of all bytes.
  bool GuardsHold(absl::Span<const std::byte> memory) const {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const int64_t end = i + 1 < offsets_.size() ? offsets_[i + 1] : bytes_;
      for (int64_t at = offsets_[i] + sizes_[i]; at < end; ++at) {
        if (memory[at] != std::byte{0xff}) return false;
      }
    }
    return true;
  }

 private:
  static constexpr int64_t kApart = 256;

  void Add(int64_t bytes) {
    offsets_.push_back(bytes_ + alignment_);
    sizes_.push_back(bytes);
    bytes_ += (alignment_ + bytes + kApart) / kApart * kApart;
  }

  const int64_t alignment_;
  int64_t bytes_ = 0;
  std::vector<int64_t> offsets_, sizes_;
  std::vector<size_t> place_;
};

std::vector<WrittenOperand> WrittenFloats(const KernelSpec& spec) {
  std::vector<WrittenOperand> written;
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    const Shard& shard = spec.outputs[i];
    if (!IsFloat(shard.dtype)) continue;
    written.push_back({static_cast<int32_t>(spec.inputs.size() + i), shard.dtype,
                       shard.NumElements(),
                       shard.partial == Reduction::kMax || shard.partial == Reduction::kMin});
  }
  return written;
}

absl::StatusOr<int64_t> ScratchOn(const DeviceSupport& support, DeviceKind kind,
                                  const KernelSpec& spec) {
  const DeviceSpec device_spec = {kind, 0, "0:0"};
  ASSIGN_OR_RETURN(const auto devices, support.open({&device_spec, 1}));
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                   support.prepare(spec, devices[0]->OpenStream(nullptr)));
  return kernel->scratch();
}

}  // namespace

absl::StatusOr<KernelRun> RunKernel(const KernelCall& call) {
  const KernelSpec spec = SpecOf(call, DeviceKind::kCpu);
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, PrepareCpuKernel(spec));

  std::vector<Buffer> buffers;
  std::vector<std::byte*> operands;
  const auto add = [&](const Shard& shard) { buffers.emplace_back(shard.NumBytes()); };
  for (const Shard& shard : spec.inputs) add(shard);
  for (const Shard& shard : spec.outputs) add(shard);
  buffers.emplace_back(kernel->scratch());
  for (Buffer& buffer : buffers) operands.push_back(buffer.data());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = operands[PlaceOf(spec, i)];
  ForEachStart(call, [&](size_t i, const HostTensor& host) {
    std::copy(host.bytes.begin(), host.bytes.end(), operands[i]);
  });

  CpuThreadPool thread_pool(call.threads, InitKernelThread);
  CpuStream stream(&thread_pool);
  RETURN_IF_ERROR(kernel->Launch(FiringOf(call, &stream), operands.data(), operands.back()));
  for (const Buffer& buffer : buffers) {
    if (!buffer.GuardHolds()) return absl::InternalError("wrote behind an operand or scratch");
  }

  return Read(spec, kernel->scratch(), [&](size_t i, absl::Span<std::byte> to) {
    std::copy_n(operands[i], to.size(), to.begin());
  });
}

absl::StatusOr<KernelRun> RunKernelOn(const DeviceSupport& support, DeviceKind kind,
                                      const KernelCall& call) {
  const KernelSpec spec = SpecOf(call, kind);
  const DeviceOperands places(spec);
  // A kernel is prepared for a stream, of a device that is to have the kernel's scratch.
  ASSIGN_OR_RETURN(const int64_t scratch, ScratchOn(support, kind, spec));
  const DeviceSpec device_spec = {kind, places.bytes() + scratch, "0:0"};
  ASSIGN_OR_RETURN(const auto devices, support.open({&device_spec, 1}));
  Device& device = *devices[0];
  Stream* const stream = device.OpenStream(nullptr);
  ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, support.prepare(spec, stream));
  if (call.check_nan) kernel = support.check_nan(std::move(kernel), WrittenFloats(spec));
  kernel = support.place(std::move(kernel), spec, {"program test", "device 0"}, stream);

  // Of scratch, too: who reads what it has not written gets nonsense.
  std::vector<std::byte> memory(device_spec.bytes, std::byte{0xff});
  ForEachStart(call, [&](size_t i, const HostTensor& host) {
    std::copy(host.bytes.begin(), host.bytes.end(), memory.begin() + places.offset(i));
  });
  device.CopyIn(0, memory);
  const std::vector<std::byte*> operands = places.At(device.memory());
  RETURN_IF_ERROR(
      kernel->Launch(FiringOf(call, stream), operands.data(), device.memory() + places.bytes()));
  const Fence fence = stream->Record();
  while (!device.Done(fence)) {
  }
  RETURN_IF_ERROR(device.status());
  device.CopyOut(0, absl::MakeSpan(memory));
  RETURN_IF_ERROR(device.status());
  if (!places.GuardsHold(memory)) return absl::InternalError("wrote behind an operand");
  return Read(spec, kernel->scratch(), [&](size_t i, absl::Span<std::byte> to) {
    std::copy_n(memory.begin() + places.offset(i), to.size(), to.begin());
  });
}

}  // namespace sluice
