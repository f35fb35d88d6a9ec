// What each CUDA kernel moves, what its op computes, and which of the two bounds it on a card: a
// table that ci/cuda_kernels.py puts beside what kernels take of one. Every op's kernel is run on
// the emulation, on the cases of conformance and of calibration. The emulation says which kernels
// were launched and what each moved; the arithmetic is the op's cost, by which steps are predicted.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "bench/kernel_grids.h"
#include "framework/attributes/attributes.h"
#include "framework/base/status.h"
#include "framework/conformance/cuda_run.h"
#include "framework/conformance/kernel_checker.h"
#include "framework/kernels/cuda/support.h"
#include "framework/machine/gpu_peaks.h"
#include "framework/ops/all_ops.h"
#include "framework/testing/cuda_emulation/cudnn.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "framework/train/command.h"

namespace sluice {
namespace {

// What a calibration's case may have here, where an access of a kernel takes some 30 ns.
constexpr int64_t kMostBytes = 1 << 20, kMostFlops = 1 << 24;

// What a kernel launched by an op moved on one of its cases.
struct KernelRow {
  std::string kernel, of, operand;
  int64_t bytes = 0;     // of the kernel's launches
  int64_t op_bytes = 0;  // of all kernels of the op
  int64_t flops = 0;     // of the op
  bool library = false;  // the op calls a library
};

// Kernels that prepare a library's call or finish it, and what part of the op's arithmetic is
// theirs. Most only move.
struct BesideLibrary {
  const char* kernel;
  double share;
};
constexpr BesideLibrary kBesideLibraries[] = {
    {"BeginGradient", 0},    {"DrawnSeed", 0},
    {"EndForward", 0},       {"Gather", 0},
    {"PaddingBias", 0},      {"SlopeOffsets", 2.0 / 5},  // q k' and dy v' of a gradient's five
    {"SlopesAsProducts", 0}, {"Turn", 0},
    {"TurnKernel", 0},       {"WeightMask", 0},
};

// The kernel's name without what its template was made for.
std::string NameOf(const std::string& kernel) { return kernel.substr(0, kernel.find('<')); }

std::string LargestOperand(const KernelCall& call) {
  TensorType largest = {DType::kF32, {0}};
  for (const auto* operands : {&call.inputs, &call.outputs}) {
    for (const KernelOperand& operand : *operands) {
      if (operand.logical.shape.NumElements() > largest.shape.NumElements()) {
        largest = operand.logical;
      }
    }
  }
  return ToString(largest);
}

class KernelBounds {
 public:
  // Of each kernel the run that shows most of it.
  const std::map<std::string, KernelRow>& rows() const { return rows_; }

  absl::Status AddOp(const OpDef& op) {
    for (const OpCase& small : op.cases) {
      RETURN_IF_ERROR(AddCase(op, small));
      if (op.computes_in != ComputesIn::kF32) RETURN_IF_ERROR(AddCase(op, InBf16(op, small)));
    }
    // In bf16 cuDNN has part in what is worth a cast.
    for (const OpCase& large : op.large_cases) {
      RETURN_IF_ERROR(AddCase(op, large));
      if (op.computes_in == ComputesIn::kLow) RETURN_IF_ERROR(AddCase(op, InBf16(op, large)));
    }
    ASSIGN_OR_RETURN(const std::optional<OpCase> timed, LargestTimed(op));
    if (!timed.has_value()) return absl::OkStatus();
    if (op.computes_in == ComputesIn::kLow) RETURN_IF_ERROR(AddCase(op, InBf16(op, *timed)));
    return AddCase(op, *timed);
  }

  // Runs the call; its kernels are of `of`.
  absl::StatusOr<KernelRun> Add(const std::string& of, int64_t flops, const KernelCall& call) {
    cuda_emulation::TakeTraffic();
    absl::StatusOr<KernelRun> run = RunOnCuda(call);
    KernelRow row;
    row.of = of;
    row.operand = LargestOperand(call);
    row.flops = flops;
    row.library = cuda_emulation::GetStatistics().library_calls > 0;
    std::map<std::string, int64_t> bytes;
    for (const cuda_emulation::KernelTraffic& moved : cuda_emulation::TakeTraffic()) {
      const std::string kernel = NameOf(moved.kernel);
      if (kernel == kOfStreams && of != kEveryStep) continue;
      bytes[kernel] += moved.loaded + moved.stored;
      row.op_bytes += moved.loaded + moved.stored;
    }
    for (const auto& [kernel, moved] : bytes) {
      row.kernel = kernel;
      row.bytes = moved;
      KernelRow& best = rows_[kernel];
      if (best.kernel.empty() || IsBetter(row, best)) best = row;
    }
    return run;
  }

  // The number of the step, which a stream writes before what it is given.
  static constexpr char kOfStreams[] = "WriteStep", kEveryStep[] = "every step";

 private:
  // A kernel is seen best where no library has part of its op, and where most is computed.
  static bool IsBetter(const KernelRow& a, const KernelRow& b) {
    if (a.library != b.library) return b.library;
    return std::pair(a.flops, a.bytes) > std::pair(b.flops, b.bytes);
  }

  // The largest case of the op's calibration that is small enough.
  static absl::StatusOr<std::optional<OpCase>> LargestTimed(const OpDef& op) {
    std::optional<OpCase> largest;
    std::pair<int64_t, int64_t> most;
    if (op.timing.call == nullptr) return largest;
    for (const std::vector<int64_t>& at : PointsOf(op.timing.axes)) {
      const OpCase timed = op.timing.call(at);
      ASSIGN_OR_RETURN(const std::vector<TensorType> outputs,
                       op.infer({timed.attributes, timed.inputs, {}}));
      const Cost cost = op.cost({timed.attributes, timed.inputs, outputs});
      const std::pair of = {cost.flops, cost.bytes};
      if (cost.flops > kMostFlops || cost.bytes > kMostBytes || of <= most) continue;
      most = of;
      largest = timed;
    }
    return largest;
  }

  absl::Status AddCase(const OpDef& op, const OpCase& op_case) {
    ASSIGN_OR_RETURN(const std::vector<TensorType> outputs,
                     op.infer({op_case.attributes, op_case.inputs, {}}));
    const Cost cost = op.cost({op_case.attributes, op_case.inputs, outputs});
    absl::Status ran;
    // What it computes is the affair of conformance's own tests.
    const KernelChecker runner(
        DeviceKind::kCuda,
        [&](const KernelCall& call) {
          absl::StatusOr<KernelRun> run = Add(op.name, cost.flops, call);
          ran = run.status();
          return run;
        },
        [](const KernelCall&, const KernelRun&) { return std::string(); });
    const std::string said = runner.CheckWhole(op, op_case, /*most_threads=*/1);
    return AddContext(ran, said);
  }

  std::map<std::string, KernelRow> rows_;
};

KernelOperand Ones(const Shape& shape, DType dtype = DType::kF32) {
  return {{dtype, shape}, WholeBox(shape), Array(shape, 1)};
}

// What cuDNN draws itself is defined nowhere, so no case of conformance has it.
absl::Status AddLibraryDraws(KernelBounds* bounds) {
  const Shape q = {1, 128, 2, 64};
  KernelCall call;
  call.op = "attention";
  call.attributes = PrintAttributes(AttentionAttributes{0.125, 0.1, 77, /*library_draws=*/true});
  call.inputs = {Ones(q, DType::kBF16), Ones(q, DType::kBF16), Ones(q, DType::kBF16)};
  call.outputs = {Ones(q, DType::kBF16), Ones({q[0], q[1], q[2]})};
  return bounds->Add("attention, library_draws", 0, call).status();
}

// Instructions that are no op, and what runs beside kernels of ops. No cost tells their arithmetic,
// which is an addition an element.
absl::Status AddInstructions(KernelBounds* bounds) {
  const Shape shape = {64, 1024};
  const int64_t elements = shape.NumElements();
  KernelCall fold;
  fold.op = "fold";
  fold.reduction = Reduction::kSum;
  fold.inputs = {Ones(shape), Ones(shape)};
  fold.outputs = {Ones(shape)};
  FoldRegion region;
  region.extent = {elements};
  region.sources = {0, 1};
  region.fold = {0, 1, -1};
  region.source_offsets = {0, 0};
  region.source_strides = {{1}, {1}};
  region.strides = {1};
  fold.regions = {region};
  RETURN_IF_ERROR(bounds->Add("fold", elements, fold).status());

  KernelCall accumulate;
  accumulate.op = "accumulate";
  accumulate.reduction = Reduction::kSum;
  accumulate.inputs = {Ones(shape)};
  accumulate.outputs = {Ones(shape)};
  accumulate.micro = 1;  // the first only copies
  RETURN_IF_ERROR(bounds->Add("accumulate", elements, accumulate).status());

  KernelCall checked;
  checked.op = "relu";
  checked.attributes = PrintAttributes(NoAttributes());
  checked.inputs = {Ones(shape)};
  checked.outputs = {Ones(shape)};
  RETURN_IF_ERROR(bounds->Add(KernelBounds::kEveryStep, 0, checked).status());
  checked.check_nan = true;
  return bounds->Add("--check_nan", 0, checked).status();
}

// Of what the table says of a kernel.
struct Work {
  double flops = 0, bytes = 0;
};

absl::StatusOr<Work> WorkOf(const KernelRow& row) {
  const auto flops = static_cast<double>(row.flops);
  if (!row.library) return Work{flops, static_cast<double>(row.op_bytes)};
  for (const BesideLibrary& beside : kBesideLibraries) {
    if (beside.kernel == row.kernel) {
      return Work{flops * beside.share, static_cast<double>(row.bytes)};
    }
  }
  return absl::InternalError(
      absl::StrCat(row.kernel, ", of ", row.of, ": only runs beside a call of ",
                   "a library; kBesideLibraries has to say what is its own"));
}

// "memory" or "arithmetic", or, where cards differ, on which it is the latter. Kernels of ours use
// no tensor cores, so the arithmetic is that of f32 whatever the operands are.
std::string BoundOf(const Work& work) {
  std::vector<std::string> arithmetic;
  constexpr const char* kCards[] = {"h100", "h200", "a100"};
  for (const char* card : kCards) {
    const GpuPeaks peaks = *GpuPeaksOf(card);
    if (work.flops / peaks.f32_flops > work.bytes / peaks.memory_bytes) arithmetic.push_back(card);
  }
  if (arithmetic.empty()) return "memory";
  if (arithmetic.size() == std::size(kCards)) return "arithmetic";
  return absl::StrCat("memory, arithmetic on ", absl::StrJoin(arithmetic, ", "));
}

absl::Status Print(const KernelRow& row) {
  ASSIGN_OR_RETURN(const Work work, WorkOf(row));
  absl::PrintF("| `%s` | %s, %s | %d | %d | %.0f | %.2f | %s |\n", row.kernel, row.of, row.operand,
               row.bytes, row.op_bytes, work.flops, work.flops / std::max(work.bytes, 1.0),
               BoundOf(work));
  return absl::OkStatus();
}

absl::Status PrintBounds() {
  KernelBounds bounds;
  cuda_emulation::CountTraffic(true);
  // Without it first: a handle that is there once serves the process.
  for (const bool with_cudnn : {false, true}) {
    cuda_emulation::SetCudnnWorks(with_cudnn);
    for (const KernelEntry& entry : CudaKernels()) {
      const OpDef* const op = FindOp(entry.op);
      if (op == nullptr) continue;  // an instruction
      if (!with_cudnn && !absl::StartsWith(op->name, "conv2d")) continue;
      RETURN_IF_ERROR(bounds.AddOp(*op));
    }
  }
  RETURN_IF_ERROR(AddInstructions(&bounds));
  cuda_emulation::SetCudnnWorks(true);
  RETURN_IF_ERROR(AddLibraryDraws(&bounds));
  absl::PrintF(
      "| kernel | of, largest operand | bytes | of all its kernels | FLOPs | a byte | bound |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const auto& [kernel, row] : bounds.rows()) RETURN_IF_ERROR(Print(row));
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"gpu_kernel_bounds",
       "Prints what every CUDA kernel moves and computes, as the emulation and costs say.\n",
       {},
       {},
       sluice::PrintBounds},
      argc, argv);
}
