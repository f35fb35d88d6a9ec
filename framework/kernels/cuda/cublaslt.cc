// A product of matrices row by row is the product of their transposes, column by column, the other
// way round: c^T = b^T a^T. A matrix as it lies row by row is its transpose column by column, so
// the library is given b first, and "rows" of its matrices are our columns:
//
//   ours   c [m,n] = a [m,k] b [k,n]        row by row
//   its    D (n x m) = A (n x k) B (k x m)  column by column, A = b, B = a, D = c as they lie
#include "framework/kernels/cuda/cublaslt.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/device/cuda_device.h"
#include "framework/kernels/cuda/cublaslt_functions.h"
#include "framework/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

using Functions = CublasLtFunctions;

absl::Status StatusOf(const Functions& library, cublasStatus_t status, absl::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", library.status_name(status)));
}

// A handle a device, made by the first who needs it and kept: the library keeps memory of its own
// with each, and what its heuristics have found.
class Handles {
 public:
  static Handles& Global() {
    static Handles& handles = *new Handles();
    return handles;
  }

  absl::StatusOr<cublasLtHandle_t> Of(const Functions& library, int device) {
    if (device < 0 || device >= static_cast<int>(handles_.size())) {
      return absl::InternalError(absl::StrCat("no handle of cuBLASLt for device ", device));
    }
    std::atomic<cublasLtHandle_t>& handle = handles_[device];
    if (const cublasLtHandle_t made = handle.load(std::memory_order_acquire)) return made;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const cublasLtHandle_t made = handle.load(std::memory_order_acquire)) return made;
    cublasLtHandle_t made = nullptr;
    RETURN_IF_ERROR(StatusOf(library, library.create(&made), "cublasLtCreate"));
    handle.store(made, std::memory_order_release);
    return made;
  }

 private:
  std::mutex mutex_;
  std::array<std::atomic<cublasLtHandle_t>, 64> handles_ = {};
};

// An object of the library, destroyed by the function that goes with it.
template <typename T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

// Of an epilogue, its name in errors and what it takes.
struct EpilogueRow {
  cublasLtEpilogue_t value;
  bool bias, aux;
  const char* text;
};
const EpilogueRow& RowOf(Epilogue epilogue) {
  static constexpr EpilogueRow rows[] = {
      {CUBLASLT_EPILOGUE_DEFAULT, false, false, ""},
      {CUBLASLT_EPILOGUE_BIAS, true, false, " with a bias"},
      {CUBLASLT_EPILOGUE_GELU_BIAS, true, false, " with a bias and gelu"},
      {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, true, " with a bias, kept, and gelu"},
  };
  return rows[static_cast<size_t>(epilogue)];
}

// What aux is to be, beside c's type (header, EPILOGUE_AUX_LD and _BATCH_STRIDE): rows of whole
// eights of elements, at addresses of 16 bytes.
constexpr int64_t kAuxElements = 8, kAuxAlignment = 16;
bool TakesAux(const MatrixProduct& p) {
  return p.row_c % kAuxElements == 0 && p.alignment >= kAuxAlignment &&
         (p.batch == 1 || p.batch_c % kAuxElements == 0);
}

std::string Text(const MatrixProduct& p) {
  const auto matrix = [](int64_t rows, int64_t columns, bool transposed) {
    return absl::StrCat("[", rows, ",", columns, "]", transposed ? " transposed" : "");
  };
  return absl::StrCat("the product of ", p.batch > 1 ? absl::StrCat(p.batch, " times ") : "",
                      DTypeName(p.operands), matrix(p.m, p.k, p.transpose_a), " and ",
                      matrix(p.k, p.n, p.transpose_b), " into ", DTypeName(p.result),
                      RowOf(p.epilogue).text);
}

int64_t LargestPowerOfTwoIn(int64_t n) { return n & -n; }

// Of every matrix of the batch.
uint32_t AlignmentOf(const MatrixProduct& p, int64_t apart, DType dtype) {
  int64_t alignment = p.alignment;
  if (p.batch > 1 && apart != 0) {
    alignment = std::min(alignment, LargestPowerOfTwoIn(apart * SizeOf(dtype)));
  }
  return static_cast<uint32_t>(alignment);
}

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

class Empty final : public CublasLtProduct {
 public:
  explicit Empty(const MatrixProduct& product) : p_(product) {}
  absl::Status Run(const KernelContext& context, const std::byte*, const std::byte*, std::byte* c,
                   std::byte*, const ExtraOperands& operands) const override {
    const auto bytes = static_cast<size_t>(p_.batch * p_.m * p_.n * SizeOf(p_.result));
    const cudaStream_t stream = StreamOf(context).handle();
    if (bytes == 0 || (p_.accumulate && operands.added == nullptr)) return absl::OkStatus();
    if (!p_.accumulate) return FromCuda(cudaMemsetAsync(c, 0, bytes, stream), "cudaMemsetAsync");
    return FromCuda(cudaMemcpyAsync(c, operands.added, bytes, cudaMemcpyDeviceToDevice, stream),
                    "cudaMemcpyAsync");
  }
  int64_t workspace() const override { return 0; }
  std::string algorithm() const override { return "nothing to multiply"; }

 private:
  const MatrixProduct p_;
};

class LibraryProduct final : public CublasLtProduct {
 public:
  explicit LibraryProduct(const Functions& library, const MatrixProduct& product)
      : library_(library), p_(product) {}

  absl::Status Prepare(int64_t most_workspace) {
    RETURN_IF_ERROR(Describe());
    return Choose(most_workspace);
  }

  absl::Status Run(const KernelContext& context, const std::byte* a, const std::byte* b,
                   std::byte* c, std::byte* workspace, const ExtraOperands& extra) const override {
    CudaStream& stream = StreamOf(context);
    ASSIGN_OR_RETURN(const cublasLtHandle_t handle,
                     Handles::Global().Of(library_, stream.device()));
    RETURN_IF_ERROR(PointAt(extra));
    const float one = 1, beta = p_.accumulate ? 1 : 0;
    const std::byte* const added = extra.added == nullptr ? c : extra.added;
    const cublasStatus_t status =
        library_.matmul(handle, matmul_.get(), &one, b, b_.get(), a, a_.get(), &beta, added,
                        c_.get(), c, c_.get(), &algorithm_, workspace_ > 0 ? workspace : nullptr,
                        static_cast<size_t>(workspace_), stream.handle());
    if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
    return StatusOf(library_, status, absl::StrCat("cublasLtMatmul of ", Text(p_)));
  }

  int64_t workspace() const override { return workspace_; }

  std::string algorithm() const override {
    int32_t id = -1, splits = 1;
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    library_.configuration(&algorithm_, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, nullptr);
    library_.configuration(&algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits,
                           nullptr);
    library_.configuration(&algorithm_, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                           sizeof scheme, nullptr);
    if (splits <= 1) return absl::StrCat("algorithm ", id);
    return absl::StrCat("algorithm ", id, ", ", splits, " splits added ",
                        scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE       ? "in place"
                        : scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? "in the result's type"
                                                                          : "in f32");
  }

 private:
  // A matrix of `rows` rows of `columns` elements as it lies.
  absl::StatusOr<Owned<cublasLtMatrixLayout_t>> MakeLayout(DType dtype, int64_t rows,
                                                           int64_t columns, int64_t row,
                                                           int64_t apart) const {
    cublasLtMatrixLayout_t made = nullptr;
    RETURN_IF_ERROR(StatusOf(library_,
                             library_.create_layout(&made, TypeOf(dtype), columns, rows, row),
                             "cublasLtMatrixLayoutCreate"));
    Owned<cublasLtMatrixLayout_t> layout(made, library_.destroy_layout);
    const auto batch = static_cast<int32_t>(p_.batch);
    RETURN_IF_ERROR(
        SetAttribute(library_.set_layout, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch));
    RETURN_IF_ERROR(SetAttribute(library_.set_layout, made,
                                 CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, apart));
    return layout;
  }

  template <typename Set, typename Descriptor, typename Attribute, typename T>
  absl::Status SetAttribute(Set set, Descriptor descriptor, Attribute attribute,
                            const T& value) const {
    return StatusOf(library_, set(descriptor, attribute, &value, sizeof value),
                    absl::StrCat("setting attribute ", static_cast<int>(attribute)));
  }

  absl::Status Describe() {
    ASSIGN_OR_RETURN(a_, MakeLayout(p_.operands, p_.transpose_a ? p_.k : p_.m,
                                    p_.transpose_a ? p_.m : p_.k, p_.row_a, p_.batch_a));
    ASSIGN_OR_RETURN(b_, MakeLayout(p_.operands, p_.transpose_b ? p_.n : p_.k,
                                    p_.transpose_b ? p_.k : p_.n, p_.row_b, p_.batch_b));
    ASSIGN_OR_RETURN(c_, MakeLayout(p_.result, p_.m, p_.n, p_.row_c, p_.batch_c));
    cublasLtMatmulDesc_t made = nullptr;
    RETURN_IF_ERROR(StatusOf(library_,
                             library_.create_matmul(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                             "cublasLtMatmulDescCreate"));
    matmul_ = Owned<cublasLtMatmulDesc_t>(made, library_.destroy_matmul);
    const int32_t turn_a = p_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t turn_b = p_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    RETURN_IF_ERROR(SetAttribute(library_.set_matmul, made, CUBLASLT_MATMUL_DESC_TRANSA, turn_b));
    RETURN_IF_ERROR(SetAttribute(library_.set_matmul, made, CUBLASLT_MATMUL_DESC_TRANSB, turn_a));
    return DescribeEpilogue();
  }

  absl::Status DescribeEpilogue() {
    const EpilogueRow& epilogue = RowOf(p_.epilogue);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      return SetAttribute(library_.set_matmul, matmul_.get(), attribute, value);
    };
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue.value)));
    if (epilogue.aux) {
      RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p_.row_c));
      RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                          p_.batch > 1 ? p_.batch_c : int64_t{0}));
    }
    // The heuristic looks at how addresses are aligned, which is all that is known of them yet.
    auto* const aligned = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(p_.alignment));
    return PointAt({aligned, aligned});
  }

  absl::Status PointAt(const ExtraOperands& at) const {
    const EpilogueRow& epilogue = RowOf(p_.epilogue);
    const void* const bias = at.bias;
    void* const aux = at.aux;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (epilogue.bias) {
      status =
          library_.set_matmul(matmul_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (epilogue.aux && status == CUBLAS_STATUS_SUCCESS) {
      status = library_.set_matmul(matmul_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux,
                                   sizeof aux);
    }
    return StatusOf(library_, status, "setting an address of the epilogue");
  }

  absl::StatusOr<Owned<cublasLtMatmulPreference_t>> MakePreference(int64_t most_workspace) const {
    cublasLtMatmulPreference_t made = nullptr;
    RETURN_IF_ERROR(
        StatusOf(library_, library_.create_preference(&made), "cublasLtMatmulPreferenceCreate"));
    Owned<cublasLtMatmulPreference_t> preference(made, library_.destroy_preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return SetAttribute(library_.set_preference, made, attribute, value);
    };
    RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(most_workspace)));
    const uint32_t of_a = AlignmentOf(p_, p_.batch_a, p_.operands);
    const uint32_t of_b = AlignmentOf(p_, p_.batch_b, p_.operands);
    const uint32_t of_c = AlignmentOf(p_, p_.batch_c, p_.result);
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_b));
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_a));
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c));
    RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c));
    if (p_.result == DType::kBF16) {
      // Of a sum that is made in parts, the parts stay f32: the other schemes round each to bf16.
      const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
    }
    if (p_.operands == DType::kF32) {
      RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_IMPL_MASK, kF32Throughout));
    }
    return preference;
  }

  // The first that the heuristic offers, which is the one it thinks the fastest.
  absl::Status Choose(int64_t most_workspace) {
    int device = 0;
    RETURN_IF_ERROR(FromCuda(cudaGetDevice(&device), "cudaGetDevice"));
    ASSIGN_OR_RETURN(const cublasLtHandle_t handle, Handles::Global().Of(library_, device));
    ASSIGN_OR_RETURN(const auto preference, MakePreference(most_workspace));
    constexpr int kMost = 8;
    cublasLtMatmulHeuristicResult_t offers[kMost];
    int offered = 0;
    const cublasStatus_t status =
        library_.heuristic(handle, matmul_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                           preference.get(), kMost, offers, &offered);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < offered; ++i) {
      if (!Suits(offers[i], most_workspace)) continue;
      algorithm_ = offers[i].algo;
      workspace_ = static_cast<int64_t>(offers[i].workspaceSize);
      return absl::OkStatus();
    }
    const std::string why = absl::StrCat(
        "cuBLASLt has no algorithm for ", Text(p_), " with a workspace of ", most_workspace,
        " bytes: ", library_.status_name(status), ", ", offered, " offered");
    // An invalid value is a mistake of ours, the rest is what the library or the card cannot do.
    if (status == CUBLAS_STATUS_INVALID_VALUE) return absl::InternalError(why);
    return absl::UnimplementedError(why);
  }

  // A library that does not know a flag of the preference would not heed it.
  bool Suits(const cublasLtMatmulHeuristicResult_t& offer, int64_t most_workspace) const {
    if (offer.state != CUBLAS_STATUS_SUCCESS) return false;
    if (offer.workspaceSize > static_cast<size_t>(most_workspace)) return false;
    uint64_t flags = 0;
    const cublasStatus_t known = library_.capability(
        &offer.algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof flags, nullptr);
    return p_.operands != DType::kF32 ||
           (known == CUBLAS_STATUS_SUCCESS && (flags & ~kF32Throughout) == 0);
  }

  static constexpr uint64_t kF32Throughout = ~(CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK |
                                               CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_TYPE_MASK |
                                               CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_INPUT_TYPE_MASK) |
                                             CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F |
                                             CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;

  const Functions& library_;
  const MatrixProduct p_;
  Owned<cublasLtMatrixLayout_t> a_{nullptr, nullptr}, b_{nullptr, nullptr}, c_{nullptr, nullptr};
  Owned<cublasLtMatmulDesc_t> matmul_{nullptr, nullptr};
  cublasLtMatmulAlgo_t algorithm_ = {};
  int64_t workspace_ = 0;
};

}  // namespace

MatrixProduct DenseProduct(const ProductShape& s) {
  return {.batch = s.batch,
          .m = s.m,
          .n = s.n,
          .k = s.k,
          .transpose_a = s.transpose_a,
          .transpose_b = s.transpose_b,
          .row_a = s.transpose_a ? s.m : s.k,
          .row_b = s.transpose_b ? s.k : s.n,
          .row_c = s.n,
          .batch_a = s.batch_a,
          .batch_b = s.batch_b,
          .batch_c = s.m * s.n,
          .operands = s.operands,
          .result = s.result};
}

absl::StatusOr<std::shared_ptr<const CublasLtProduct>> CublasLtProduct::Prepare(
    const MatrixProduct& product, int64_t most_workspace) {
  const bool is_empty = product.batch == 0 || product.m == 0 || product.n == 0;
  const bool alone = product.epilogue == Epilogue::kNone;
  if (!alone && !is_empty &&
      (product.k == 0 || (RowOf(product.epilogue).aux && !TakesAux(product)))) {
    return absl::UnimplementedError(absl::StrCat("cuBLASLt does not make ", Text(product)));
  }
  if (is_empty || product.k == 0) {
    return std::shared_ptr<const CublasLtProduct>(std::make_shared<Empty>(product));
  }
  if (const char* const forced = std::getenv("NVIDIA_TF32_OVERRIDE");
      forced != nullptr && std::strcmp(forced, "1") == 0) {
    return absl::FailedPreconditionError(
        "NVIDIA_TF32_OVERRIDE=1 has cuBLASLt round f32 operands to TF32: unset it");
  }
  ASSIGN_OR_RETURN(const CublasLtFunctions* const library, FindCublasLt());
  const auto prepared = std::make_shared<LibraryProduct>(*library, product);
  RETURN_IF_ERROR(prepared->Prepare(most_workspace));
  return std::shared_ptr<const CublasLtProduct>(prepared);
}

}  // namespace sluice::cuda
