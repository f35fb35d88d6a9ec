#include "framework/conformance/kernel_run.h"

#include <algorithm>
#include <cstring>
#include <memory>

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

}  // namespace

absl::StatusOr<KernelRun> RunKernel(const KernelCall& call) {
  KernelSpec spec;
  spec.op = call.op;
  spec.attributes = call.attributes;
  spec.threads = call.threads;
  spec.reduction = call.reduction;
  spec.fill_identity = call.fill_identity;
  spec.regions = call.regions;
  for (const KernelOperand& x : call.inputs) {
    spec.inputs.push_back(ShardOf(x, call.by_micro, call.micro));
  }
  for (const KernelOperand& y : call.outputs) {
    spec.outputs.push_back(ShardOf(y, call.by_micro, call.micro));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, PrepareCpuKernel(spec));

  std::vector<Buffer> buffers;
  std::vector<std::byte*> operands;
  const auto add = [&](const Shard& shard) { buffers.emplace_back(shard.NumBytes()); };
  for (const Shard& shard : spec.inputs) add(shard);
  for (const Shard& shard : spec.outputs) add(shard);
  buffers.emplace_back(kernel->scratch());
  for (Buffer& buffer : buffers) operands.push_back(buffer.data());
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const HostTensor host = FromArray(call.inputs[i].array, spec.inputs[i].dtype);
    if (!host.bytes.empty()) std::memcpy(operands[i], host.bytes.data(), host.bytes.size());
  }

  CpuThreadPool thread_pool(call.threads, InitKernelThread);
  CpuStream stream(&thread_pool);
  KernelContext firing;
  firing.step = call.step;
  firing.micro = call.micro;
  firing.seed = call.seed;
  firing.stream = &stream;
  RETURN_IF_ERROR(kernel->Launch(firing, operands.data(), operands.back()));
  for (const Buffer& buffer : buffers) {
    if (!buffer.GuardHolds()) return absl::InternalError("wrote behind an operand or scratch");
  }

  KernelRun run;
  run.scratch = kernel->scratch();
  const auto read = [&](size_t i, const Shard& shard) {
    HostTensor host(shard.dtype, shard.local);
    if (!host.bytes.empty()) std::memcpy(host.bytes.data(), operands[i], host.bytes.size());
    run.bytes.push_back(host);
    return ToArray(host);
  };
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    run.outputs.push_back(read(spec.inputs.size() + i, spec.outputs[i]));
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) run.updated.push_back(read(i, spec.inputs[i]));
  return run;
}

}  // namespace sluice
