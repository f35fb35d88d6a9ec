// A product of the emulated cuBLASLt with all that may be said of it, for tests.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_TEST_PRODUCT_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_TEST_PRODUCT_H_

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "framework/tensor/dtype.h"
#include "framework/testing/cuda_emulation/cublaslt.h"
#include "framework/testing/cuda_emulation/emulation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::cuda_emulation {

// A layout by value.
struct Layout {
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0, stride = 0;
  int32_t batch = 1;
};

inline int64_t SizeOfType(cudaDataType type) { return type == CUDA_R_16BF ? 2 : 4; }

inline float Get(const void* base, cudaDataType type, int64_t i) {
  if (type == CUDA_R_16BF) return BFloat16ToFloat(static_cast<const uint16_t*>(base)[i]);
  return static_cast<const float*>(base)[i];
}
inline void Put(void* base, cudaDataType type, int64_t i, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<uint16_t*>(base)[i] = FloatToBFloat16(value);
  } else {
    static_cast<float*>(base)[i] = value;
  }
}

// Its buffers are on the device. Everything is public: a test changes one thing and looks at the
// answer.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k, cudaDataType operands = CUDA_R_32F,
          cudaDataType result = CUDA_R_32F)
      : a{operands, static_cast<uint64_t>(m), static_cast<uint64_t>(k), m, m * k},
        b{operands, static_cast<uint64_t>(k), static_cast<uint64_t>(n), k, k * n},
        d{result, static_cast<uint64_t>(m), static_cast<uint64_t>(n), m, m * n} {
    c = d;
    EXPECT_EQ(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    Prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{1} << 20);
  }
  Product(const Product&) = delete;
  ~Product() {
    cublasLtDestroy(handle);
    cublasLtMatmulDescDestroy(matmul);
    cublasLtMatmulPreferenceDestroy(preference);
  }

  template <typename T>
  void Say(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(matmul, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
  template <typename T>
  void Prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
  void Epilogue(cublasLtEpilogue_t epilogue) {
    Say(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
  }
  void Batch(int32_t count) { a.batch = b.batch = c.batch = d.batch = count; }

  // Elements of a layout's buffer.
  static int64_t Elements(const Layout& x) {
    return (x.batch - 1) * x.stride + (static_cast<int64_t>(x.cols) - 1) * x.ld +
           static_cast<int64_t>(x.rows);
  }
  // Device memory of so many elements, with pseudo-random values or, if `filled` is false, none.
  void* Device(cudaDataType type, int64_t elements, int seed, bool filled = true) {
    void* device = nullptr;
    const auto bytes = static_cast<size_t>(elements * SizeOfType(type));
    EXPECT_EQ(cudaMalloc(&device, bytes), cudaSuccess);
    if (!filled) return device;
    std::vector<char> host(bytes);
    for (int64_t i = 0; i < elements; ++i) {
      Put(host.data(), type, i, static_cast<float>((i * 37 + seed * 11) % 101 - 50) / 32);
    }
    CopyIn(device, host.data(), bytes);
    return device;
  }
  static void CopyIn(void* device, const void* host, size_t bytes) {
    EXPECT_EQ(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void Allocate() {
    at_a = Device(a.type, Elements(a), 1);
    at_b = Device(b.type, Elements(b), 2);
    at_c = Device(c.type, Elements(c), 3);
    at_d = Device(d.type, Elements(d), 4, false);
  }

  cublasStatus_t Ask(int requested = 8) {
    const Layouts of(*this);
    offers.assign(static_cast<size_t>(std::max(requested, 1)), {});
    int returned = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, matmul, of.a, of.b, of.c, of.d, preference, requested, offers.data(), &returned);
    offers.resize(static_cast<size_t>(returned));
    return status;
  }
  // The heuristic's first offer, or its refusal.
  cublasStatus_t Run() {
    const cublasStatus_t asked = Ask();
    if (asked != CUBLAS_STATUS_SUCCESS) return asked;
    if (at_d == nullptr) Allocate();
    workspace_bytes = offers[0].workspaceSize;
    if (workspace_bytes > 0) cudaMalloc(&workspace, workspace_bytes);
    return Multiply(offers[0].algo);
  }
  cublasStatus_t Multiply(const cublasLtMatmulAlgo_t& algorithm) {
    const Layouts of(*this);
    return cublasLtMatmul(handle, matmul, &alpha, at_a, of.a, at_b, of.b, &beta, at_c, of.c, at_d,
                          of.d, &algorithm, workspace, workspace_bytes, stream);
  }

  std::vector<char> Read(const void* device, const Layout& x) const {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    std::vector<char> host(static_cast<size_t>(Elements(x) * SizeOfType(x.type)));
    EXPECT_EQ(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }
  std::vector<float> Values(const void* device, const Layout& x) const {
    const std::vector<char> bytes = Read(device, x);
    std::vector<float> values(static_cast<size_t>(Elements(x)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = Get(bytes.data(), x.type, static_cast<int64_t>(i));
    }
    return values;
  }

  Layout a, b, c, d;
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> offers;
  void *at_a = nullptr, *at_b = nullptr, *at_c = nullptr, *at_d = nullptr, *workspace = nullptr;
  size_t workspace_bytes = 0;
  float alpha = 1, beta = 0;
  // What a test may say of all four layouts.
  int32_t order = CUBLASLT_ORDER_COL;
  uint32_t batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
  int64_t plane_offset = 0;

 private:
  struct Layouts {
    explicit Layouts(const Product& p)
        : a(Make(p, p.a)), b(Make(p, p.b)), c(Make(p, p.c)), d(Make(p, p.d)) {}
    ~Layouts() {
      for (const cublasLtMatrixLayout_t x : {a, b, c, d}) cublasLtMatrixLayoutDestroy(x);
    }
    static cublasLtMatrixLayout_t Make(const Product& p, const Layout& x) {
      cublasLtMatrixLayout_t made = nullptr;
      EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, x.type, x.rows, x.cols, x.ld),
                CUBLAS_STATUS_SUCCESS);
      const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
        EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof value),
                  CUBLAS_STATUS_SUCCESS);
      };
      set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, x.batch);
      set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.stride);
      set(CUBLASLT_MATRIX_LAYOUT_ORDER, p.order);
      set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, p.batch_mode);
      set(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, p.plane_offset);
      return made;
    }
    cublasLtMatrixLayout_t a, b, c, d;
  };
};

// What the product is to give, in double precision. REQUIRES: no epilogue.
inline std::vector<double> Expected(const Product& p, bool turned_a, bool turned_b) {
  const std::vector<float> a = p.Values(p.at_a, p.a), b = p.Values(p.at_b, p.b);
  const std::vector<float> c = p.beta == 0 ? std::vector<float>() : p.Values(p.at_c, p.c);
  std::vector<double> expected(static_cast<size_t>(Product::Elements(p.d)), NAN);
  const auto m = static_cast<int64_t>(p.d.rows), n = static_cast<int64_t>(p.d.cols);
  const auto k = static_cast<int64_t>(turned_a ? p.a.rows : p.a.cols);
  for (int64_t i = 0; i < p.d.batch; ++i) {
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t) {
          sum += double{a[i * p.a.stride + (turned_a ? row * p.a.ld + t : t * p.a.ld + row)]} *
                 b[i * p.b.stride + (turned_b ? t * p.b.ld + column : column * p.b.ld + t)];
        }
        const double old = p.beta == 0 ? 0 : c[i * p.c.stride + column * p.c.ld + row];
        expected[i * p.d.stride + column * p.d.ld + row] = p.alpha * sum + p.beta * old;
      }
    }
  }
  return expected;
}

inline void ExpectNear(const std::vector<double>& expected, const std::vector<float>& got,
                       double tolerance) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) continue;  // between columns
    ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

inline void SetBias(Product& p, cublasLtEpilogue_t epilogue) {
  p.Epilogue(epilogue);
  p.Say(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.Device(p.d.type, 64, 5));
}
inline void SetAux(Product& p, cublasLtEpilogue_t epilogue, int64_t ld) {
  p.Epilogue(epilogue);
  p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.Device(p.d.type, 4096, 6));
  p.Say(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
}

class CublasLtTest : public ::testing::Test {
 protected:
  CublasLtTest() { Reset(uint64_t{7}); }
  // Errors that a test provokes are taken by it.
  ~CublasLtTest() override { EXPECT_THAT(TakeErrors(), ::testing::IsEmpty()); }
};

}  // namespace sluice::cuda_emulation

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_CUBLASLT_TEST_PRODUCT_H_
