// The four matrix products of a linear layer, alone and with what follows them.
#include <utility>
#include <vector>

#include "framework/kernels/cuda/all_kernels.h"
#include "framework/kernels/cuda/cublaslt.h"

namespace sluice::cuda {
namespace {

// A third input is what the product is added to.
PreparedKernel PrepareProduct(const KernelSpec& spec, MatMulPass pass) {
  const bool adds = spec.inputs.size() == 3;
  if (adds && spec.inputs[2].dtype != spec.outputs[0].dtype) return NoKernel(spec);
  ASSIGN_OR_RETURN(const MatMulProduct of, MatMulProductOf(spec, pass));
  MatrixProduct dense = DenseProduct(of.shape);
  dense.alignment = spec.alignment;
  dense.accumulate = adds;
  ASSIGN_OR_RETURN(const std::shared_ptr<const CublasLtProduct> product,
                   CublasLtProduct::Prepare(dense, spec.most_scratch));
  return MakeKernel(
      [product, adds, swapped = of.swapped](const KernelContext& context, const Operands& at) {
        return product->Run(context, at.bytes(swapped ? 1 : 0), at.bytes(swapped ? 0 : 1),
                            at.bytes(adds ? 3 : 2), at.scratch<std::byte>(),
                            {.added = adds ? at.bytes(2) : nullptr});
      },
      product->workspace());
}

// A kernel of ours on operands of the instruction; what it reads and writes may be one operand.
struct OwnStep {
  PreparedKernel (*prepare)(const KernelSpec& spec);
  std::vector<int> reads;
  int writes;
};

// A way to make a product and what follows it: by an epilogue, and by kernels of ours what that
// leaves. Operands are numbered as the instruction has them.
struct Way {
  Epilogue epilogue;
  int product;                      // where the product goes
  int aux;                          // of the epilogue; -1: none
  std::vector<OwnStep> steps = {};  // in order
};
// From the one with the fewest passes to the one that is always there.
using Ways = std::vector<Way>;

// How exact the library's gelu is, nobody says, and the tanh that cards have an instruction for is
// off by 2^-11: less than what bf16 rounds by, and much more than is promised of f32.
bool IsExactEnough(Epilogue epilogue, DType dtype) {
  const bool has_gelu = epilogue != Epilogue::kNone && epilogue != Epilogue::kBias;
  return !has_gelu || dtype == DType::kBF16;
}

absl::StatusOr<std::vector<std::unique_ptr<Kernel>>> PrepareSteps(const KernelSpec& spec,
                                                                  const Way& way) {
  const auto operand = [&](int i) {
    const auto inputs = static_cast<int>(spec.inputs.size());
    return i < inputs ? spec.inputs[i] : spec.outputs[i - inputs];
  };
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const OwnStep& step : way.steps) {
    KernelSpec own = spec;
    own.attributes.clear();
    own.inputs.clear();
    own.updates.clear();
    for (const int i : step.reads) own.inputs.push_back(operand(i));
    own.outputs = {operand(step.writes)};
    ASSIGN_OR_RETURN(kernels.emplace_back(), step.prepare(own));
  }
  return kernels;
}

PreparedKernel PrepareWay(const KernelSpec& spec, const Way& way, bool swapped,
                          std::shared_ptr<const CublasLtProduct> product) {
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Kernel>> steps, PrepareSteps(spec, way));
  const int64_t workspace = product->workspace();
  return MakeKernel(
      [&way, swapped, product = std::move(product), steps = std::move(steps)](
          const KernelContext& context, const Operands& at) -> absl::Status {
        const ExtraOperands extra = {at.bytes(2), way.aux < 0 ? nullptr : at.bytes(way.aux)};
        RETURN_IF_ERROR(product->Run(context, at.bytes(swapped ? 1 : 0), at.bytes(swapped ? 0 : 1),
                                     at.bytes(way.product), at.scratch<std::byte>(), extra));
        for (size_t s = 0; s < steps.size(); ++s) {
          std::byte* operands[3];
          size_t count = 0;
          for (const int i : way.steps[s].reads) operands[count++] = at.bytes(i);
          operands[count] = at.bytes(way.steps[s].writes);
          RETURN_IF_ERROR(steps[s]->Launch(context, operands, nullptr));
        }
        return absl::OkStatus();
      },
      workspace);
}

// The first way that the library has. `ways` outlive the kernel.
PreparedKernel PrepareFirst(const KernelSpec& spec, const Ways& ways) {
  const DType dtype = spec.inputs[0].dtype;
  RETURN_IF_ERROR(RequireAll(spec, dtype));
  ASSIGN_OR_RETURN(const MatMulProduct of, MatMulProductOf(spec, MatMulPass::kForward));
  MatrixProduct dense = DenseProduct(of.shape);
  dense.alignment = spec.alignment;
  for (const Way& way : ways) {
    if (!IsExactEnough(way.epilogue, dtype)) continue;
    dense.epilogue = way.epilogue;
    auto product = CublasLtProduct::Prepare(dense, spec.most_scratch);
    if (absl::IsUnimplemented(product.status()) && way.epilogue != Epilogue::kNone) continue;
    RETURN_IF_ERROR(product.status());
    return PrepareWay(spec, way, of.swapped, *std::move(product));
  }
  return NoKernel(spec);
}

// ---- a 0, b 1, bias 2, y 3, and what gelu reads 4 ----

const Ways& WaysOfBias() {
  static const Ways& ways =
      *new Ways{{Epilogue::kBias, 3, -1}, {Epilogue::kNone, 3, -1, {{PrepareAdd, {3, 2}, 3}}}};
  return ways;
}

const Ways& WaysOfBiasGelu() {
  static const Ways& ways =
      *new Ways{{Epilogue::kBiasGelu, 3, -1},
                {Epilogue::kBias, 3, -1, {{PrepareGelu, {3}, 3}}},
                {Epilogue::kNone, 3, -1, {{PrepareAdd, {3, 2}, 3}, {PrepareGelu, {3}, 3}}}};
  return ways;
}

const Ways& WaysOfBiasGeluAux() {
  static const Ways& ways =
      *new Ways{{Epilogue::kBiasGeluAux, 3, 4},
                {Epilogue::kBias, 4, -1, {{PrepareGelu, {4}, 3}}},
                {Epilogue::kNone, 4, -1, {{PrepareAdd, {4, 2}, 4}, {PrepareGelu, {4}, 3}}}};
  return ways;
}

}  // namespace

PreparedKernel PrepareMatMul(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kForward);
}

PreparedKernel PrepareMatMulInputGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kInputGradient);
}

PreparedKernel PrepareMatMulRightGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kRightGradient);
}

PreparedKernel PrepareMatMulWeightGradient(const KernelSpec& spec) {
  return PrepareProduct(spec, MatMulPass::kRightGradient);
}

PreparedKernel PrepareMatMulBias(const KernelSpec& spec) {
  return PrepareFirst(spec, WaysOfBias());
}

PreparedKernel PrepareMatMulBiasGelu(const KernelSpec& spec) {
  return PrepareFirst(spec, WaysOfBiasGelu());
}

PreparedKernel PrepareMatMulBiasGeluAux(const KernelSpec& spec) {
  return PrepareFirst(spec, WaysOfBiasGeluAux());
}

}  // namespace sluice::cuda
