#include "bench/op_timing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "framework/base/status.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/loaded_program.h"

namespace sluice {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int kTurns = 8;  // batches of ids, as bench/click_batches.h has

int64_t OperandBytes(const plan::Instruction& instruction) {
  int64_t bytes = 0;
  for (const auto* operands : {&instruction.inputs(), &instruction.outputs()}) {
    for (const plan::Operand& operand : *operands) {
      bytes += ShardFromProto(operand.shard()).value().NumBytes() + 2 * kAlignment;
    }
  }
  return bytes;
}

}  // namespace

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
  std::vector<std::vector<int32_t>> ids;  // as the kernel reads those of the pass
  pass.writes = use.writes;
  if (use.ids >= 0) {
    for (int turn = 0; turn < kTurns; ++turn) {
      pass.ids.push_back(DrawIds(use.rows, IdLimit(spec), turn));
      ids.push_back(DrawIntegers(spec, use.ids, turn));
    }
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
      operands[use.ids] = reinterpret_cast<std::byte*>(ids[turn++ % ids.size()].data());
    }
    status = kernel->Launch(firing, operands.data(), static_cast<std::byte*>(aligned));
  });
  RETURN_IF_ERROR(status);
  return time;
}

std::vector<std::byte*> OpTimer::Place(const DistinctInstruction& one, const KernelSpec& spec) {
  const OperandPlaces places = PlaceOperands(one, spec, kAlignment);
  FillOperands(spec, places, /*seed=*/1, memory_.data());
  std::vector<std::byte*> operands;
  for (const int64_t offset : places.offsets) operands.push_back(memory_.data() + offset);
  return operands;
}

OpTime OpTimer::Describe(const DistinctInstruction& one, const KernelSpec& spec) const {
  OpTime time;
  time.name = KernelName(spec);
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
    time.bytes +=
        static_cast<double>((use.writes ? 2 : 1) * use.rows * 4 * LastExtent(spec.inputs[table]));
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
