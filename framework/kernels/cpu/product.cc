#include "framework/kernels/cpu/product.h"

#include <dnnl.h>

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/kernels/cpu/library_call.h"

namespace sluice::cpu {
namespace {

// Below this many multiplications a call of oneDNN costs more than the product.
constexpr int64_t kSmallProduct = 2048;
// Multiplications that are worth another thread.
constexpr int64_t kGrain = 1 << 18;
// Elements of a transposed a that a piece gathers at a time: they stay in its second cache.
constexpr int64_t kGathered = 1 << 18;

absl::Status StatusOf(dnnl_status_t status, absl::string_view call) {
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN: ", call, " gave status ", status));
}

// Releases an object of oneDNN's C interface.
template <typename T, dnnl_status_t (*destroy)(T)>
struct Destroy {
  void operator()(T object) const { destroy(object); }
};
template <typename T, dnnl_status_t (*destroy)(T)>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroy<T, destroy>>;
using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Stream = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Memory = Owned<dnnl_memory_t, dnnl_memory_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using PrimitiveDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;

// One dense product of fixed shape, run by one thread at a time.
class Multiplication {
 public:
  static absl::StatusOr<Multiplication> Prepare(int64_t m, int64_t n, int64_t k, bool transpose_a,
                                                bool transpose_b) {
    Multiplication made;
    dnnl_memory_desc_t a, b, c;
    RETURN_IF_ERROR(Describe(m, k, transpose_a, &a));
    RETURN_IF_ERROR(Describe(k, n, transpose_b, &b));
    RETURN_IF_ERROR(Describe(m, n, false, &c));
    dnnl_engine_t engine;
    RETURN_IF_ERROR(StatusOf(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine_create"));
    made.engine_.reset(engine);
    dnnl_stream_t stream;
    RETURN_IF_ERROR(
        StatusOf(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream_create"));
    made.stream_.reset(stream);
    dnnl_matmul_desc_t operation;
    RETURN_IF_ERROR(
        StatusOf(dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c), "matmul_desc_init"));
    dnnl_primitive_desc_t description;
    RETURN_IF_ERROR(StatusOf(
        dnnl_primitive_desc_create(&description, &operation, nullptr, engine, nullptr),
        absl::StrCat("primitive_desc_create of a product ", m, "x", k, " by ", k, "x", n)));
    const PrimitiveDesc owner(description);
    const char* name = "";
    RETURN_IF_ERROR(StatusOf(
        dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name), "query"));
    made.implementation_ = name;
    if (absl::StrContains(made.implementation_, "ref")) {
      return absl::InternalError(absl::StrCat("oneDNN has only a reference implementation (", name,
                                              ") of the product ", m, "x", k, " by ", k, "x", n));
    }
    dnnl_primitive_t primitive;
    RETURN_IF_ERROR(StatusOf(dnnl_primitive_create(&primitive, description), "primitive_create"));
    made.primitive_.reset(primitive);
    const dnnl_memory_desc_t* descriptions[] = {&a, &b, &c};
    for (int i = 0; i < 3; ++i) {
      dnnl_memory_t memory;
      RETURN_IF_ERROR(StatusOf(
          dnnl_memory_create(&memory, descriptions[i], engine, DNNL_MEMORY_NONE), "memory_create"));
      made.memories_[i].reset(memory);
    }
    return made;
  }

  void Run(const float* a, const float* b, float* c) const {
    ScopedLibraryCall call;
    void* handles[] = {const_cast<float*>(a), const_cast<float*>(b), c};
    for (int i = 0; i < 3; ++i) {
      SLUICE_CHECK(dnnl_memory_set_data_handle_v2(memories_[i].get(), handles[i], stream_.get()) ==
                   dnnl_success);
    }
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memories_[0].get()},
                                         {DNNL_ARG_WEIGHTS, memories_[1].get()},
                                         {DNNL_ARG_DST, memories_[2].get()}};
    SLUICE_CHECK(dnnl_primitive_execute(primitive_.get(), stream_.get(), 3, arguments) ==
                 dnnl_success);
  }

  const std::string& implementation() const { return implementation_; }

 private:
  // A dense rows x columns matrix, or one whose columns are dense. Of one row or column it is the
  // same, and oneDNN must not be left to wonder.
  static absl::Status Describe(int64_t rows, int64_t columns, bool transposed,
                               dnnl_memory_desc_t* description) {
    const dnnl_dims_t extents = {rows, columns};
    const bool by_columns = transposed && rows > 1 && columns > 1;
    const dnnl_dims_t strides = {by_columns ? 1 : columns, by_columns ? rows : 1};
    return StatusOf(dnnl_memory_desc_init_by_strides(description, 2, extents, dnnl_f32, strides),
                    "memory_desc_init_by_strides");
  }

  Engine engine_;
  Stream stream_;
  Primitive primitive_;
  Memory memories_[3];
  std::string implementation_;
};

class LibraryProduct : public Product {
 public:
  // What one thread does: blocks of rows of the matrices [matrices.begin, matrices.end) of the
  // batch. All blocks have the first one's rows, but for the last.
  struct Piece {
    Range matrices;
    std::vector<Range> blocks;
    Multiplication first, last;
    int64_t gathered = -1;  // where in scratch (floats) columns of a transposed a are gathered
  };

  static absl::StatusOr<std::shared_ptr<const Product>> Make(const ProductShape& shape,
                                                             int threads) {
    auto made = std::make_shared<LibraryProduct>();
    made->shape_ = shape;
    const int64_t work = shape.batch * shape.m * shape.n * shape.k;
    int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(threads, work / kGrain));
    const bool by_matrix = shape.batch >= pieces;
    if (!by_matrix) pieces = std::min(pieces, (shape.m + 15) / 16);
    for (int64_t i = 0; i < pieces; ++i) {
      const Range matrices = by_matrix ? Cut({0, shape.batch}, pieces, i) : Range{0, shape.batch};
      Range rows = {0, shape.m};
      if (!by_matrix) {
        rows = Cut({0, (shape.m + 15) / 16}, pieces, i);
        rows = {rows.begin * 16, std::min(rows.end * 16, shape.m)};
      }
      ASSIGN_OR_RETURN(Piece piece, made->PieceOf(matrices, rows));
      made->pieces_.push_back(std::move(piece));
    }
    return std::shared_ptr<const Product>(std::move(made));
  }

  void Run(const KernelContext& context, const float* a, const float* b, float* c,
           std::byte* scratch) const override {
    const auto run = [&](int64_t i) { RunPiece(pieces_[i], a, b, c, scratch); };
    ThreadPool* const pool = context.thread_pool();
    if (pieces_.size() == 1 || pool == nullptr) {
      for (size_t i = 0; i < pieces_.size(); ++i) run(static_cast<int64_t>(i));
    } else {
      pool->ForEach(static_cast<int64_t>(pieces_.size()), run);
    }
  }

  int64_t scratch() const override { return scratch_ * 4; }
  std::string implementation() const override { return pieces_[0].first.implementation(); }

 private:
  absl::StatusOr<Piece> PieceOf(Range matrices, Range rows) {
    Piece piece;
    piece.matrices = matrices;
    int64_t block = rows.size();
    if (shape_.transpose_a && rows.size() < shape_.m) {
      block = std::min(block, std::max<int64_t>(256, kGathered / shape_.k / 16 * 16));
      piece.gathered = scratch_;
      scratch_ += AlignedBytes(block * shape_.k * 4) / 4;
    }
    for (int64_t at = rows.begin; at < rows.end; at += block) {
      piece.blocks.push_back({at, std::min(at + block, rows.end)});
    }
    ASSIGN_OR_RETURN(piece.first, Prepare(piece.blocks.front()));
    ASSIGN_OR_RETURN(piece.last, Prepare(piece.blocks.back()));
    return piece;
  }

  absl::StatusOr<Multiplication> Prepare(Range rows) const {
    return Multiplication::Prepare(rows.size(), shape_.n, shape_.k, shape_.transpose_a,
                                   shape_.transpose_b);
  }

  void RunPiece(const Piece& piece, const float* a, const float* b, float* c,
                std::byte* scratch) const {
    for (int64_t i = piece.matrices.begin; i < piece.matrices.end; ++i) {
      for (const Range& block : piece.blocks) {
        const int64_t rows = block.size();
        const float* from = a + i * shape_.batch_a;
        if (piece.gathered >= 0) {
          float* gathered = reinterpret_cast<float*>(scratch) + piece.gathered;
          for (int64_t d = 0; d < shape_.k; ++d) {
            std::memcpy(gathered + d * rows, from + d * shape_.m + block.begin,
                        rows * sizeof(float));
          }
          from = gathered;
        } else {
          from += block.begin * shape_.k;  // 0 if transposed: then the piece has all rows
        }
        const Multiplication& run = &block == &piece.blocks.back() ? piece.last : piece.first;
        run.Run(from, b + i * shape_.batch_b, c + (i * shape_.m + block.begin) * shape_.n);
      }
    }
  }

  ProductShape shape_;
  std::vector<Piece> pieces_;
  int64_t scratch_ = 0;  // floats
};

// Plain loops, for small products, and for those with nothing to sum.
class SmallProduct : public Product {
 public:
  explicit SmallProduct(const ProductShape& shape) : s_(shape) {}

  void Run(const KernelContext&, const float* a, const float* b, float* c,
           std::byte*) const override {
    for (int64_t i = 0; i < s_.batch; ++i) {
      for (int64_t r = 0; r < s_.m; ++r) {
        for (int64_t col = 0; col < s_.n; ++col) {
          float sum = 0;
          for (int64_t d = 0; d < s_.k; ++d) {
            sum += a[i * s_.batch_a + (s_.transpose_a ? d * s_.m + r : r * s_.k + d)] *
                   b[i * s_.batch_b + (s_.transpose_b ? col * s_.k + d : d * s_.n + col)];
          }
          c[(i * s_.m + r) * s_.n + col] = sum;
        }
      }
    }
  }
  int64_t scratch() const override { return 0; }
  std::string implementation() const override { return ""; }

 private:
  ProductShape s_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Product>> Product::Prepare(const ProductShape& shape,
                                                                int threads) {
  const int64_t each = shape.m * shape.n * shape.k;
  if (each < kSmallProduct || shape.batch == 0) {
    return std::shared_ptr<const Product>(std::make_shared<SmallProduct>(shape));
  }
  // A primitive remembers the number of threads of its creation.
  InitKernelThread();
  return LibraryProduct::Make(shape, threads);
}

}  // namespace sluice::cpu
