// What products with weights would gain in a step of GPT small (BERT base: all but the logits) if
// weights were kept in the panels that oneDNN likes best, instead of as they lie: milliseconds of a
// step, at one thread's rows, and those that packing takes. The weights of all layers take turns,
// as in a step, which finds none in a cache.
//   bazel run //bench:weight_panels

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/device/memory.h"
#include "framework/kernels/cpu/library_call.h"
#include "framework/kernels/cpu/multiplication.h"
#include "framework/kernels/prepared.h"
#include "framework/tensor/array.h"
#include "framework/train/command.h"

ABSL_FLAG(int32_t, rounds, 15, "in each of them both layouts take a turn");
ABSL_FLAG(int64_t, rows, 512, "of activations: those of one thread");

namespace sluice {
namespace {

using cpu::Multiplication;

// A product with a weight [k, n], or [n, k] if transposed, and how often a step has it.
struct WeightProduct {
  const char* what;
  int64_t n, k;
  bool transpose_b;
  int times;  // as many weights take turns
};

constexpr WeightProduct kProducts[] = {
    {"attention's linear layers", 768, 768, false, 48},
    {"their input gradients", 768, 768, true, 48},
    {"first of the MLP", 3072, 768, false, 12},
    {"its input gradient", 768, 3072, true, 12},
    {"second of the MLP", 768, 3072, false, 12},
    {"its input gradient", 3072, 768, true, 12},
    {"logits", 50304, 768, true, 1},
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Matrices of a product, one behind the other, in memory as steps have it, of huge pages: filled
// with values that are no zeros; those in panels have them at other places, which no time depends
// on.
class Matrices {
 public:
  static absl::StatusOr<Matrices> Make(int64_t elements, int count, DType dtype) {
    Matrices made;
    made.each_ = AlignedBytes(elements * SizeOf(dtype));
    ASSIGN_OR_RETURN(made.memory_, Memory::Allocate(made.each_ * count));
    std::byte line[64];
    const int64_t size = SizeOf(dtype), bytes = sizeof(line);
    for (int64_t i = 0; i < bytes / size; ++i) {
      StoreElement(dtype, line, i, 0.01 * static_cast<double>(i - 7));
    }
    for (int64_t i = 0; i < made.each_ * count; i += bytes) {
      std::memcpy(made.memory_.data() + i, line, bytes);
    }
    return made;
  }
  std::byte* operator[](int i) { return memory_.data() + i * each_; }

 private:
  int64_t each_ = 0;
  Memory memory_;
};

absl::StatusOr<double> Measure(const WeightProduct& product, DType dtype) {
  Multiplication::Shape shape;
  shape.m = absl::GetFlag(FLAGS_rows), shape.n = product.n, shape.k = product.k;
  shape.operands = shape.result = dtype;
  shape.transpose_b = product.transpose_b;
  ASSIGN_OR_RETURN(const Multiplication plain, Multiplication::Prepare(shape));
  shape.transpose_b = false;
  ASSIGN_OR_RETURN(const Multiplication packed, Multiplication::PrepareInPanels(shape));
  const cpu::Panels& panels = packed.panels();
  if (panels.width == 0) return absl::UnimplementedError("oneDNN likes no panels");
  const int64_t packed_elements = panels.NumPanels(shape.n) * panels.PanelElements(shape.k);
  ASSIGN_OR_RETURN(Matrices as_they_lie, Matrices::Make(shape.k * shape.n, product.times, dtype));
  ASSIGN_OR_RETURN(Matrices in_panels, Matrices::Make(packed_elements, product.times, dtype));
  ASSIGN_OR_RETURN(Matrices a, Matrices::Make(shape.m * shape.k, 1, dtype));
  ASSIGN_OR_RETURN(Matrices c, Matrices::Make(shape.m * shape.n, 1, dtype));
  ASSIGN_OR_RETURN(Memory scratch,
                   Memory::Allocate(std::max(plain.scratch_bytes(), packed.scratch_bytes())));
  std::vector<double> plain_seconds, packed_seconds, ratios, pack_seconds;
  const auto run = [&](const Multiplication& multiplication, Matrices& weights) {
    const double begin = Seconds();
    for (int i = 0; i < product.times; ++i) {
      multiplication.Run(a[0], weights[i], c[0], scratch.data());
    }
    return (Seconds() - begin) / product.times;
  };
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    plain_seconds.push_back(run(plain, as_they_lie));
    packed_seconds.push_back(run(packed, in_panels));
    ratios.push_back(plain_seconds.back() / packed_seconds.back());
    const double begin = Seconds();
    for (int i = 0; i < product.times; ++i) {
      panels.Pack(as_they_lie[i], shape.k, shape.n, 0, panels.NumPanels(shape.n), in_panels[i]);
    }
    pack_seconds.push_back((Seconds() - begin) / product.times);
  }
  const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  const double seconds = Median(plain_seconds), ratio = Median(ratios);
  const double gain = seconds * (1 - 1 / ratio) * product.times;
  absl::PrintF(
      "%-5s %-26s %4d x %5d  %s  %4.0f GFLOP/s, in panels x %.3f: %6.1f ms; packing %6.1f\n",
      DTypeName(dtype), product.what, shape.k, shape.n, product.transpose_b ? "NT" : "NN",
      flops / seconds * 1e-9, ratio, gain * 1e3, Median(pack_seconds) * product.times * 1e3);
  return gain;
}

absl::Status Run() {
  InitKernelThread();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    double gain = 0;
    for (const WeightProduct& product : kProducts) {
      ASSIGN_OR_RETURN(const double seconds, Measure(product, dtype));
      gain += seconds;
    }
    absl::PrintF("%-5s %.1f ms, packing not counted\n", DTypeName(dtype), gain * 1e3);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"weight_panels",
                             "What products with weights gain from panels",
                             {{"How it is measured", {{"rounds", "N", ""}, {"rows", "N", ""}}}},
                             {},
                             [] { return sluice::Run(); }},
                            argc, argv);
}
