// What products and convolutions share of oneDNN's C interface: owned objects, statuses, and a
// primitive with the memories it is called on. For the files of this package only.
#ifndef SLUICE_FRAMEWORK_KERNELS_CPU_ONEDNN_H_
#define SLUICE_FRAMEWORK_KERNELS_CPU_ONEDNN_H_

#include <dnnl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/tensor/dtype.h"

namespace sluice::cpu {

absl::Status StatusOf(dnnl_status_t status, absl::string_view call);

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
using OwnedPrimitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using PrimitiveAttributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using PrimitiveDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;

absl::StatusOr<Engine> MakeEngine();
// Attributes of a primitive that works in bytes of the caller's (DNNL_ARG_SCRATCHPAD). oneDNN's own
// would be held by each primitive as long as it lives, though one runs at a time.
absl::StatusOr<PrimitiveAttributes> WithCallersScratch();
inline dnnl_data_type_t TypeOf(DType dtype) { return dtype == DType::kBF16 ? dnnl_bf16 : dnnl_f32; }

// oneDNN's name for what it chose: "brg:avx512_core".
std::string ImplementationOf(const_dnnl_primitive_desc_t description);
// Whether the name is that of one of those that take up to a thousand times as long: "ref:any", and
// "simple:any" of a reorder.
bool IsReference(absl::string_view implementation);

// A primitive and what it is called on. One thread at a time.
class Primitive {
 public:
  // An argument (DNNL_ARG_SRC) and how its bytes lie.
  struct Argument {
    int name;
    const dnnl_memory_desc_t* layout;
  };
  static absl::StatusOr<Primitive> Make(const_dnnl_primitive_desc_t description,
                                        dnnl_engine_t engine, absl::Span<const Argument> arguments);
  // `operands` in the order of the arguments.
  void Run(absl::Span<const std::byte* const> operands) const;

 private:
  Primitive() = default;

  Stream stream_;
  OwnedPrimitive primitive_;
  std::vector<Memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace sluice::cpu

#endif  // SLUICE_FRAMEWORK_KERNELS_CPU_ONEDNN_H_
