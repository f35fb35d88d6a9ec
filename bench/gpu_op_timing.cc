#include "bench/gpu_op_timing.h"

#include <utility>

#include "absl/strings/match.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/kernels/cuda/support.h"
#include "framework/plan/shard_proto.h"
#include "framework/runtime/loaded_program.h"

namespace sluice {
namespace {

constexpr int64_t kAlignment = 256;             // as the arena of a plan has it
constexpr int64_t kPattern = int64_t{1} << 20;  // bytes of values that fill all operands

int64_t RoundUp(int64_t value) { return (value + kPattern - 1) / kPattern * kPattern; }

absl::StatusOr<cudaEvent_t> MakeEvent() {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(
      FromCuda(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags"));
  return event;
}

DistinctInstruction SquareProduct(int64_t width, DType precision, KernelSpec* spec) {
  const Shard matrix = Shard::Whole(precision, {width, width});
  spec->op = "matmul";
  spec->attributes = PrintAttributes(MatMulAttributes());
  spec->inputs = {matrix, matrix};
  spec->outputs = {matrix};
  spec->updates = {false, false};
  DistinctInstruction one;
  one.place = {0, 1, 2};
  return one;
}

}  // namespace

absl::StatusOr<GpuOpTimer> GpuOpTimer::Create(int64_t bytes, const GpuTimingOptions& options) {
  GpuOpTimer made;
  made.options_ = options;
  made.bytes_ = RoundUp(std::max(bytes, options.rotated_bytes));
  const DeviceSpec spec = {DeviceKind::kCuda, made.bytes_ + kPattern, "0:0"};
  ASSIGN_OR_RETURN(auto devices, CudaSupport().open({&spec, 1}));
  made.device_ = std::move(devices[0]);
  made.stream_ = static_cast<CudaStream*>(made.device_->OpenStream(nullptr));
  made.copies_ = made.stream_->AddPlace("copy", "program of one kernel", "device 0");
  std::vector<std::byte> pattern(kPattern);
  FillValues(kPattern, pattern.data());
  made.device_->CopyIn(made.bytes_, pattern);
  RETURN_IF_ERROR(made.device_->status());
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(FromCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"));
  made.card_ = properties.name;
  ASSIGN_OR_RETURN(const cudaEvent_t begin, MakeEvent());
  made.begin_.reset(begin);
  ASSIGN_OR_RETURN(const cudaEvent_t end, MakeEvent());
  made.end_.reset(end);
  return made;
}

absl::StatusOr<int64_t> GpuOpTimer::BytesOf(const DistinctInstruction& one) {
  ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(one.instruction, /*threads=*/1));
  return PlaceOperands(one, spec, kAlignment).bytes;
}

absl::StatusOr<GpuOpTime> GpuOpTimer::Measure(const DistinctInstruction& one) {
  ASSIGN_OR_RETURN(const KernelSpec spec, SpecOf(one.instruction, /*threads=*/1));
  ASSIGN_OR_RETURN(const Prepared prepared, Prepare(one, spec));
  GpuOpTime time = Describe(one, prepared.spec);
  ASSIGN_OR_RETURN(time.seconds, TimeOfKernel(prepared));
  return time;
}

void GpuOpTimer::BeginCopies() { stream_->Begin(copies_, /*step=*/0, {}); }

absl::StatusOr<double> GpuOpTimer::MeasureCopy(int64_t bytes) {
  BeginCopies();
  std::byte* const from = device_->memory();
  ASSIGN_OR_RETURN(const double seconds, TimeOf([&](int64_t) {
                     return FromCuda(cudaMemcpyAsync(from + bytes / 2, from, bytes / 2,
                                                     cudaMemcpyDeviceToDevice, stream_->handle()),
                                     "cudaMemcpyAsync");
                   }));
  return static_cast<double>(bytes) / seconds;
}

absl::StatusOr<double> GpuOpTimer::MeasureMatMul(int64_t width, DType precision) {
  KernelSpec spec;
  const DistinctInstruction one = SquareProduct(width, precision, &spec);
  ASSIGN_OR_RETURN(const Prepared prepared, Prepare(one, spec));
  ASSIGN_OR_RETURN(const double seconds, TimeOfKernel(prepared));
  const double n = static_cast<double>(width);
  return 2 * n * n * n / seconds;
}

absl::StatusOr<GpuOpTimer::Prepared> GpuOpTimer::Prepare(const DistinctInstruction& one,
                                                         const KernelSpec& spec) {
  Prepared prepared;
  prepared.spec = spec;
  prepared.spec.device = DeviceKind::kCuda;
  prepared.places = PlaceOperands(one, spec, kAlignment);
  if (prepared.places.bytes > bytes_) {
    return absl::InternalError("expected operands of no more bytes than the timer was made for");
  }
  const DeviceSupport& support = CudaSupport();
  ASSIGN_OR_RETURN(prepared.kernel, support.prepare(prepared.spec, stream_));
  RETURN_IF_ERROR(ReserveScratch(prepared.kernel->scratch()));
  prepared.kernel = support.place(std::move(prepared.kernel), prepared.spec,
                                  {"program of one kernel", "device 0"}, stream_);
  constexpr int64_t kMostCopies = 32;
  const int64_t one_copy = std::max<int64_t>(prepared.places.bytes, 1);
  prepared.copies = std::clamp<int64_t>(options_.rotated_bytes / one_copy, 1, kMostCopies);
  RETURN_IF_ERROR(Fill(prepared));
  return prepared;
}

absl::Status GpuOpTimer::ReserveScratch(int64_t bytes) {
  if (bytes <= scratch_bytes_) return absl::OkStatus();
  scratch_.reset();
  scratch_bytes_ = 0;
  void* made = nullptr;
  RETURN_IF_ERROR(FromCuda(cudaMalloc(&made, static_cast<size_t>(bytes)), "cudaMalloc of scratch"));
  scratch_.reset(static_cast<std::byte*>(made));
  scratch_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status GpuOpTimer::Fill(const Prepared& prepared) {
  BeginCopies();
  std::byte* const memory = device_->memory();
  const int64_t end = prepared.copies * prepared.places.bytes;
  for (int64_t at = 0; at < end; at += kPattern) {
    RETURN_IF_ERROR(FromCuda(cudaMemcpyAsync(memory + at, memory + bytes_, kPattern,
                                             cudaMemcpyDeviceToDevice, stream_->handle()),
                             "cudaMemcpyAsync"));
  }
  RETURN_IF_ERROR(Wait());
  for (int64_t copy = 0; copy < prepared.copies; ++copy) {
    for (size_t i = 0; i < prepared.spec.inputs.size(); ++i) {
      if (prepared.spec.inputs[i].dtype != DType::kI32) continue;
      const std::vector<int32_t> drawn =
          DrawIntegers(prepared.spec, i, static_cast<uint32_t>(copy));
      device_->CopyIn(copy * prepared.places.bytes + prepared.places.offsets[i],
                      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(drawn.data()),
                                          drawn.size() * sizeof(int32_t)));
    }
  }
  return device_->status();
}

absl::StatusOr<double> GpuOpTimer::TimeOfKernel(const Prepared& prepared) {
  std::vector<std::byte*> operands(prepared.places.offsets.size());
  // The second firing of a step: an accumulator is added to rather than set.
  const KernelContext firing = {
      .step = 1, .micro = prepared.spec.op == "accumulate" ? 1 : 0, .stream = stream_};
  return TimeOf([&](int64_t number) {
    std::byte* const copy = device_->memory() + number % prepared.copies * prepared.places.bytes;
    for (size_t i = 0; i < operands.size(); ++i) operands[i] = copy + prepared.places.offsets[i];
    return prepared.kernel->Launch(firing, operands.data(), scratch_.get());
  });
}

absl::StatusOr<double> GpuOpTimer::TimeOf(const std::function<absl::Status(int64_t)>& launch) {
  // The first launch loads the kernel.
  RETURN_IF_ERROR(Between(1, launch).status());
  ASSIGN_OR_RETURN(const double once, Between(1, launch));
  const double fit = options_.budget / std::max(once, 1e-6);
  const int64_t launches =
      std::clamp<int64_t>(static_cast<int64_t>(std::min(fit, 1e6)), 1, options_.most_launches);
  ASSIGN_OR_RETURN(const double all, Between(launches, launch));
  return std::max(all / static_cast<double>(launches), 1e-9);
}

absl::StatusOr<double> GpuOpTimer::Between(int64_t launches,
                                           const std::function<absl::Status(int64_t)>& launch) {
  RETURN_IF_ERROR(FromCuda(cudaEventRecord(begin_.get(), stream_->handle()), "cudaEventRecord"));
  for (int64_t number = 0; number < launches; ++number) RETURN_IF_ERROR(launch(number));
  RETURN_IF_ERROR(FromCuda(cudaEventRecord(end_.get(), stream_->handle()), "cudaEventRecord"));
  RETURN_IF_ERROR(Wait());
  float milliseconds = 0;
  RETURN_IF_ERROR(FromCuda(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()),
                           "cudaEventElapsedTime"));
  return static_cast<double>(milliseconds) * 1e-3;
}

absl::Status GpuOpTimer::Wait() {
  RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(stream_->handle()), "cudaStreamSynchronize"));
  return device_->status();
}

GpuOpTime GpuOpTimer::Describe(const DistinctInstruction& one, const KernelSpec& spec) const {
  GpuOpTime time;
  time.name = KernelName(spec);
  time.count = one.count;
  time.flops = static_cast<double>(one.instruction.flops());
  const TableUse use = TableUseOf(spec, one.instruction);
  const Traffic traffic = TrafficOf(one, spec, use);
  time.bytes = static_cast<double>(traffic.total());
  time.working_set = static_cast<double>(traffic.total() - traffic.in_place);
  for (const int table : use.tables) {
    time.bytes +=
        static_cast<double>((use.writes ? 2 : 1) * use.rows * SizeOf(spec.inputs[table].dtype) *
                            LastExtent(spec.inputs[table]));
    time.working_set += static_cast<double>(spec.inputs[table].NumBytes());
  }
  time.memory_limit = time.bytes / peaks_.memory_bytes;
  if (IsProduct(spec.op) || absl::StrContains(spec.op, "attention")) {
    const bool low = spec.inputs[0].dtype == DType::kBF16;
    time.arithmetic_limit = time.flops / (low ? peaks_.bf16_flops : peaks_.f32_flops);
  }
  return time;
}

}  // namespace sluice
