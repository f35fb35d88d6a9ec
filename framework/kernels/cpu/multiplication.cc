#include "framework/kernels/cpu/multiplication.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/kernels/cpu/onednn.h"
#include "framework/kernels/cpu/vector.h"

namespace sluice::cpu {
namespace {

// A dense rows x columns matrix, or one whose columns are dense. Of one row or column it is the
// same, and oneDNN must not be left to wonder.
absl::Status Describe(DType dtype, int64_t rows, int64_t columns, bool transposed,
                      dnnl_memory_desc_t* description) {
  const dnnl_dims_t extents = {rows, columns};
  const bool by_columns = transposed && rows > 1 && columns > 1;
  const dnnl_dims_t strides = {by_columns ? 1 : columns, by_columns ? rows : 1};
  return StatusOf(dnnl_memory_desc_init_by_strides(description, 2, extents, TypeOf(dtype), strides),
                  "memory_desc_init_by_strides");
}

absl::StatusOr<PrimitiveDesc> DescribeProduct(dnnl_engine_t engine, const dnnl_memory_desc_t& a,
                                              const dnnl_memory_desc_t& b,
                                              const dnnl_memory_desc_t& c) {
  dnnl_matmul_desc_t operation;
  RETURN_IF_ERROR(
      StatusOf(dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c), "matmul_desc_init"));
  ASSIGN_OR_RETURN(const PrimitiveAttributes attributes, WithCallersScratch());
  dnnl_primitive_desc_t description;
  const dnnl_status_t made =
      dnnl_primitive_desc_create(&description, &operation, attributes.get(), engine, nullptr);
  const std::string what =
      absl::StrCat("a product ", a.dims[0], "x", a.dims[1], " by ", b.dims[0], "x", b.dims[1]);
  if (made == dnnl_unimplemented) {
    return absl::UnimplementedError(absl::StrCat("oneDNN has no implementation of ", what));
  }
  RETURN_IF_ERROR(StatusOf(made, absl::StrCat("primitive_desc_create of ", what)));
  return PrimitiveDesc(description);
}

// The panels that a description of b's bytes says, if it is one of those: blocks of `depth` rows by
// `width` columns, row by row inside or two rows together, the blocks of a panel one behind the
// other.
Panels PanelsOf(const dnnl_memory_desc_t& b) {
  const dnnl_blocking_desc_t& blocking = b.format_desc.blocking;
  const bool pairs = b.data_type == dnnl_bf16;
  if (b.format_kind != dnnl_blocked || blocking.inner_nblks != (pairs ? 3 : 2) ||
      blocking.inner_idxs[0] != 0 || blocking.inner_idxs[1] != 1 || b.offset0 != 0 ||
      (pairs && (blocking.inner_idxs[2] != 0 || blocking.inner_blks[2] != 2))) {
    return {};
  }
  const int64_t together = pairs ? 2 : 1;
  const Panels panels = {blocking.inner_blks[1], together * blocking.inner_blks[0], together};
  const bool in_order = blocking.strides[0] == panels.width * panels.depth &&
                        blocking.strides[1] == panels.PanelElements(b.dims[0]);
  return in_order ? panels : Panels();
}

// Some rows of all panels before the next ones, so that b is read in runs of whole rows.
constexpr int64_t kRowsAtATime = 16;

void PackRows(const Panels& panels, const float* b, int64_t k, int64_t n, int64_t begin,
              int64_t end, float* packed) {
  const int64_t panel = panels.PanelElements(k), width = panels.width;
  for (int64_t first = 0; first < k; first += kRowsAtATime) {
    const int64_t last = std::min(first + kRowsAtATime, k);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t columns = std::min(width, n - p * width);
      for (int64_t row = first; row < last; ++row) {
        float* const to = packed + p * panel + row * width;
        std::memcpy(to, b + row * n + p * width, columns * sizeof(float));
        std::fill(to + columns, to + width, 0.0f);
      }
    }
  }
  for (int64_t p = begin; p < end; ++p) {
    std::fill(packed + p * panel + k * width, packed + (p + 1) * panel, 0.0f);
  }
}

void PackPairs(const Panels& panels, const uint16_t* b, int64_t k, int64_t n, int64_t begin,
               int64_t end, uint16_t* packed) {
  const int64_t panel = panels.PanelElements(k), width = panels.width;
  const auto pair_up = Vectors().arithmetic.pair_up;
  for (int64_t first = 0; first < k; first += kRowsAtATime) {
    const int64_t last = std::min(first + kRowsAtATime, k);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t columns = std::min(width, n - p * width);
      for (int64_t row = first; row < last; row += 2) {
        uint16_t* const to = packed + p * panel + row * width;
        const uint16_t* const from = b + row * n + p * width;
        pair_up(from, row + 1 < k ? from + n : nullptr, to, columns);
        std::fill(to + 2 * columns, to + 2 * width, uint16_t{0});
      }
    }
  }
  for (int64_t p = begin; p < end; ++p) {
    std::fill(packed + p * panel + (k + 1) / 2 * 2 * width, packed + (p + 1) * panel, uint16_t{0});
  }
}

}  // namespace

void Panels::Pack(const std::byte* b, int64_t k, int64_t n, int64_t begin, int64_t end,
                  std::byte* packed) const {
  if (together == 2) {
    PackPairs(*this, reinterpret_cast<const uint16_t*>(b), k, n, begin, end,
              reinterpret_cast<uint16_t*>(packed));
  } else {
    PackRows(*this, reinterpret_cast<const float*>(b), k, n, begin, end,
             reinterpret_cast<float*>(packed));
  }
}

struct Multiplication::Call {
  Engine engine;
  Primitive primitive;
};

Multiplication::Multiplication() = default;
Multiplication::Multiplication(Multiplication&&) noexcept = default;
Multiplication& Multiplication::operator=(Multiplication&&) noexcept = default;
Multiplication::~Multiplication() = default;

absl::StatusOr<Multiplication> Multiplication::Prepare(const Shape& shape) {
  return Make(shape, false);
}

absl::StatusOr<Multiplication> Multiplication::PrepareInPanels(const Shape& shape) {
  return Make(shape, true);
}

absl::StatusOr<Multiplication> Multiplication::Make(const Shape& shape, bool in_panels) {
  Multiplication made;
  dnnl_memory_desc_t a, b, c;
  RETURN_IF_ERROR(Describe(shape.operands, shape.m, shape.k, shape.transpose_a, &a));
  RETURN_IF_ERROR(Describe(shape.operands, shape.k, shape.n, shape.transpose_b, &b));
  RETURN_IF_ERROR(Describe(shape.result, shape.m, shape.n, false, &c));
  ASSIGN_OR_RETURN(Engine engine, MakeEngine());
  PrimitiveDesc description;
  if (in_panels) {
    dnnl_memory_desc_t any;
    RETURN_IF_ERROR(
        StatusOf(dnnl_memory_desc_init_by_tag(&any, 2, b.dims, b.data_type, dnnl_format_tag_any),
                 "memory_desc_init_by_tag"));
    ASSIGN_OR_RETURN(description, DescribeProduct(engine.get(), a, any, c));
    const dnnl_memory_desc_t* const liked =
        dnnl_primitive_desc_query_md(description.get(), dnnl_query_weights_md, 0);
    if (liked != nullptr) made.panels_ = PanelsOf(*liked);
    if (made.panels_.width > 0) b = *liked;
  }
  if (made.panels_.width == 0) {
    ASSIGN_OR_RETURN(description, DescribeProduct(engine.get(), a, b, c));
  }
  made.implementation_ = ImplementationOf(description.get());
  if (IsReference(made.implementation_)) {
    return absl::UnimplementedError(absl::StrCat("oneDNN has only a reference implementation (",
                                                 made.implementation_, ") of the product ", shape.m,
                                                 "x", shape.k, " by ", shape.k, "x", shape.n));
  }
  const dnnl_memory_desc_t scratch =
      *dnnl_primitive_desc_query_md(description.get(), dnnl_query_scratchpad_md, 0);
  made.scratch_bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(&scratch));
  ASSIGN_OR_RETURN(Primitive primitive, Primitive::Make(description.get(), engine.get(),
                                                        {{DNNL_ARG_SRC, &a},
                                                         {DNNL_ARG_WEIGHTS, &b},
                                                         {DNNL_ARG_DST, &c},
                                                         {DNNL_ARG_SCRATCHPAD, &scratch}}));
  made.call_ = std::make_unique<Call>(Call{std::move(engine), std::move(primitive)});
  return made;
}

void Multiplication::Run(const std::byte* a, const std::byte* b, std::byte* c,
                         std::byte* scratch) const {
  call_->primitive.Run({a, b, c, scratch});
}

}  // namespace sluice::cpu
