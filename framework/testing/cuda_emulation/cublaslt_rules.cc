// Sources of the rules: "header" is the comment beside that name in the toolkit's cublasLt.h 13.0,
// "manual" the cuBLAS manual on cublasLtMatmul (its tables of types and of epilogues), "report" a
// public bug report that shows what the library answers, "memory" what is not yet confirmed on a
// GPU.
#include "framework/testing/cuda_emulation/cublaslt_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::cuda_emulation {
namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

// Keeps the first rule that is broken.
class Checker {
 public:
  template <typename... Parts>
  void Require(cublasStatus_t otherwise, bool holds, const Parts&... reason) {
    if (!holds && !first_.refused()) first_ = {otherwise, absl::StrCat(reason...)};
  }
  Refusal Take() { return std::move(first_); }

 private:
  Refusal first_;
};
constexpr cublasStatus_t kInvalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr cublasStatus_t kUnsupported = CUBLAS_STATUS_NOT_SUPPORTED;

constexpr Epilogue kEpilogues[] = {
    {CUBLASLT_EPILOGUE_DEFAULT, Activation::kNone, BiasUse::kNone, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_RELU, Activation::kRelu, BiasUse::kNone, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_RELU_AUX, Activation::kRelu, BiasUse::kNone, AuxUse::kWritten},
    {CUBLASLT_EPILOGUE_BIAS, Activation::kNone, BiasUse::kAdded, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_RELU_BIAS, Activation::kRelu, BiasUse::kAdded, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, Activation::kRelu, BiasUse::kAdded, AuxUse::kWritten},
    {CUBLASLT_EPILOGUE_DRELU, Activation::kRelu, BiasUse::kNone, AuxUse::kRead},
    {CUBLASLT_EPILOGUE_DRELU_BGRAD, Activation::kRelu, BiasUse::kSumOfD, AuxUse::kRead},
    {CUBLASLT_EPILOGUE_GELU, Activation::kGelu, BiasUse::kNone, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_GELU_AUX, Activation::kGelu, BiasUse::kNone, AuxUse::kWritten},
    {CUBLASLT_EPILOGUE_GELU_BIAS, Activation::kGelu, BiasUse::kAdded, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, Activation::kGelu, BiasUse::kAdded, AuxUse::kWritten},
    {CUBLASLT_EPILOGUE_DGELU, Activation::kGelu, BiasUse::kNone, AuxUse::kRead},
    {CUBLASLT_EPILOGUE_DGELU_BGRAD, Activation::kGelu, BiasUse::kSumOfD, AuxUse::kRead},
    {CUBLASLT_EPILOGUE_BGRADA, Activation::kNone, BiasUse::kSumOfA, AuxUse::kNone},
    {CUBLASLT_EPILOGUE_BGRADB, Activation::kNone, BiasUse::kSumOfB, AuxUse::kNone},
};

// The rows of the manual's table of types that the framework uses. 32F never rounds operands to
// TF32, 32F_FAST_TF32 does (header of cublas_api.h).
struct Types {
  int32_t compute;
  uint32_t operands, result;
};
constexpr Types kTypes[] = {
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF},
    {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_32F},
};

std::string Text(const Layout& x) { return absl::StrCat(x.rows, "x", x.cols, " ld ", x.ld); }

void CheckLayout(const char* name, const Layout& x, Checker* checker) {
  // memory: nothing is computed of nothing, but descriptors of it are refused.
  checker->Require(kInvalid, x.rows > 0 && x.cols > 0, name, " is empty: ", Text(x));
  // header, MATRIX_LAYOUT_LD: not negative, and columns do not overlap.
  const uint64_t least = x.order == CUBLASLT_ORDER_ROW ? x.cols : x.rows;
  checker->Require(kInvalid, x.ld >= static_cast<int64_t>(least), name,
                   " has a leading dimension that is too small: ", Text(x));
  checker->Require(kInvalid, x.batch_count >= 1, name, " has a batch of ", x.batch_count);
}

void CheckShapes(const MatmulProblem& p, Checker* checker) {
  CheckLayout("A", p.a, checker);
  CheckLayout("B", p.b, checker);
  CheckLayout("C", p.c, checker);
  CheckLayout("D", p.d, checker);
  for (const int32_t operation : {p.matmul.transpose_a, p.matmul.transpose_b}) {
    checker->Require(kInvalid, operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C,
                     "there is no operation ", operation);
  }
  const bool turned_a = p.matmul.transpose_a != CUBLAS_OP_N;
  const bool turned_b = p.matmul.transpose_b != CUBLAS_OP_N;
  const uint64_t rows = turned_a ? p.a.cols : p.a.rows, depth = turned_a ? p.a.rows : p.a.cols;
  const uint64_t columns = turned_b ? p.b.rows : p.b.cols;
  const uint64_t depth_of_b = turned_b ? p.b.cols : p.b.rows;
  checker->Require(kInvalid, rows == p.d.rows && columns == p.d.cols && depth == depth_of_b,
                   "op(A) is ", rows, "x", depth, " and op(B) ", depth_of_b, "x", columns, ", D ",
                   Text(p.d));
  checker->Require(kInvalid, p.c.rows == p.d.rows && p.c.cols == p.d.cols, "C is ", Text(p.c),
                   " and D ", Text(p.d));
  const int32_t batch = p.d.batch_count;
  checker->Require(
      kInvalid, p.a.batch_count == batch && p.b.batch_count == batch && p.c.batch_count == batch,
      "batches of ", p.a.batch_count, ", ", p.b.batch_count, ", ", p.c.batch_count, " and ", batch);
  // header, STRIDED_BATCH_OFFSET: 0 is the same matrix for all, which cannot be a result.
  checker->Require(kInvalid, batch <= 1 || p.d.batch_stride != 0, "a batch of ", batch,
                   " writes one D");
}

// header, EPILOGUE_AUX_LD and _BATCH_STRIDE: in bits for ReLU, which is kept as a mask, else in
// elements.
void CheckAux(const MatmulProblem& p, const Epilogue& epilogue, Checker* checker) {
  const int64_t multiple = epilogue.activation == Activation::kRelu ? 128 : 8;
  checker->Require(kInvalid, p.matmul.aux != nullptr, "the epilogue's auxiliary matrix is not set");
  checker->Require(kInvalid, p.matmul.aux_ld >= p.rows() && p.matmul.aux_ld % multiple == 0,
                   "the auxiliary matrix has a leading dimension of ", p.matmul.aux_ld,
                   ", expected a multiple of ", multiple, " and at least ", p.rows());
  checker->Require(kInvalid, p.matmul.aux_batch_stride % multiple == 0,
                   "the auxiliary matrix has a batch stride of ", p.matmul.aux_batch_stride,
                   ", expected a multiple of ", multiple);
  if (epilogue.activation == Activation::kRelu) return;
  checker->Require(kUnsupported, p.aux_type() == p.d.type, "the auxiliary matrix is of type ",
                   p.aux_type(), ", D of type ", p.d.type);
}

void CheckEpilogue(const MatmulProblem& p, Checker* checker) {
  const Epilogue* const epilogue = FindEpilogue(p.matmul.epilogue);
  checker->Require(kInvalid, epilogue != nullptr, "there is no epilogue ", p.matmul.epilogue);
  if (epilogue == nullptr) return;
  if (epilogue->bias != BiasUse::kNone) {
    // header, BIAS_POINTER: the heuristic, too, looks at the pointers (at their alignment).
    checker->Require(kInvalid, p.matmul.bias != nullptr, "the epilogue's bias is not set");
  }
  if (epilogue->aux != AuxUse::kNone) CheckAux(p, *epilogue, checker);
  if (epilogue->bias != BiasUse::kNone) {
    checker->Require(kUnsupported, p.bias_type() == p.d.type, "the bias is of type ", p.bias_type(),
                     ", D of type ", p.d.type);
  }
  // memory: a gradient of GELU is only a product's, without C, and not f32 of bf16 operands.
  const bool gradient_of_gelu =
      epilogue->activation == Activation::kGelu && epilogue->aux == AuxUse::kRead;
  checker->Require(kUnsupported, !gradient_of_gelu || p.a.type == p.d.type,
                   "a gradient of GELU of operands of type ", p.a.type, " into type ", p.d.type);
}

void CheckWhatIsSupported(const MatmulProblem& p, Checker* checker) {
  for (const Layout* x : {&p.a, &p.b, &p.c, &p.d}) {
    // The row order narrows what epilogues do, and is not needed: a product of matrices row by row
    // is one of their transposes, the other way round.
    checker->Require(kUnsupported, x->order == CUBLASLT_ORDER_COL, "an order other than columns");
    checker->Require(kUnsupported, x->batch_mode == CUBLASLT_BATCH_MODE_STRIDED,
                     "a batch of pointers");
    checker->Require(kUnsupported, x->plane_offset == 0, "planes of complex numbers");
  }
  // header, TRANSC.
  checker->Require(kUnsupported, p.matmul.transpose_c == CUBLAS_OP_N, "a transposed C");
  checker->Require(kUnsupported, p.matmul.pointer_mode == CUBLASLT_POINTER_MODE_HOST,
                   "alpha and beta in device memory");
  const bool known = std::any_of(std::begin(kTypes), std::end(kTypes), [&](const Types& types) {
    return p.matmul.compute_type == types.compute && p.matmul.scale_type == CUDA_R_32F &&
           p.a.type == types.operands && p.b.type == types.operands && p.c.type == types.result &&
           p.d.type == types.result;
  });
  checker->Require(kUnsupported, known, "compute type ", p.matmul.compute_type, ", scale type ",
                   p.matmul.scale_type, ", A, B, C, D of types ", p.a.type, ", ", p.b.type, ", ",
                   p.c.type, ", ", p.d.type);
}

}  // namespace

const Epilogue* FindEpilogue(uint32_t value) {
  for (const Epilogue& epilogue : kEpilogues) {
    if (epilogue.value == value) return &epilogue;
  }
  return nullptr;
}

int64_t BiasLength(const MatmulProblem& problem, const Epilogue& epilogue) {
  return epilogue.bias == BiasUse::kSumOfB ? problem.columns() : problem.rows();
}

bool IsAligned(const void* address, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

Refusal CheckProblem(const MatmulProblem& problem, int capability) {
  Checker checker;
  CheckShapes(problem, &checker);
  CheckEpilogue(problem, &checker);
  CheckWhatIsSupported(problem, &checker);
  // manual: bf16 needs compute capability 8.0, TF32 as well.
  const bool newer =
      problem.a.type == CUDA_R_16BF || problem.matmul.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  checker.Require(CUBLAS_STATUS_ARCH_MISMATCH, !newer || capability >= 80,
                  "bf16 and TF32 need compute capability 8.0, the device has ", capability / 10,
                  ".", capability % 10);
  return checker.Take();
}

}  // namespace sluice::cuda_emulation
