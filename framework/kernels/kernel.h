// A Kernel is one instruction of a script made ready to run: shapes fixed, primitives created,
// attributes parsed, at load. Launch gives it to a stream; it allocates nothing and looks nothing
// up by name. A kernel is owned by its instruction and launched by one worker at a time.
#ifndef SLUICE_FRAMEWORK_KERNELS_KERNEL_H_
#define SLUICE_FRAMEWORK_KERNELS_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/device_kind.h"
#include "framework/device/stream.h"
#include "framework/tensor/shard.h"

namespace sluice {

// Which execution of an instruction this is.
struct KernelContext {
  int64_t step = 0;   // of the program, from 0; draws of random ops depend on it
  int32_t micro = 0;  // firing within the step
  uint64_t seed = 0;
  Stream* stream = nullptr;  // null: on the caller's thread alone
  ThreadPool* thread_pool() const { return stream == nullptr ? nullptr : stream->thread_pool(); }
};

// Slices that a boxing instruction reads: strides and offsets in elements (plan.proto Region).
struct FoldRegion {
  Shape extent;
  std::vector<int> sources;
  std::vector<int> fold;
  std::vector<int64_t> source_offsets;
  std::vector<Shape> source_strides;
  int64_t offset = 0;
  Shape strides;
  int32_t micro = 0;
};

// All that a kernel may know of its instruction.
struct KernelSpec {
  std::string op, attributes, scope;
  std::vector<Shard> inputs, outputs;
  std::vector<bool> updates;             // by input: it is changed in place
  std::vector<int> takes;                // by output: the input whose bytes it has, from 1; 0: none
  DeviceKind device = DeviceKind::kCpu;  // that it will run on
  int threads = 1;                       // that the stream's pool will have
  int64_t alignment = 64;                // bytes: each operand begins at a multiple, in each firing
  bool transfer = false;                 // operands may lie in other memory spaces
  int calls = 1;                         // of the op, one behind the other (calls.h)
  // Bytes of scratch that it may ask for, where a library has faster ways that want more.
  int64_t most_scratch = std::numeric_limits<int64_t>::max();
  Reduction reduction = Reduction::kNone;
  bool fill_identity = false;
  std::vector<FoldRegion> regions;
};

// Where an instruction stands, for errors that come when nobody remembers it.
struct KernelPlace {
  std::string before_step, after_step;  // "program train", "device 1, h0/norm (layer_norm)"
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // `operands`: inputs, then outputs. On a CPU the work has ended when it returns; on other devices
  // it has been given to the stream, and `operands` and `context` have been copied. Errors (an id
  // out of range) end the step, of work that is done later by way of the stream's status.
  virtual absl::Status Launch(const KernelContext& context, std::byte* const* operands,
                              std::byte* scratch) = 0;
  // Bytes of scratch that Launch needs.
  virtual int64_t scratch() const { return 0; }
};

struct KernelEntry {
  absl::string_view op;
  absl::StatusOr<std::unique_ptr<Kernel>> (*prepare)(const KernelSpec& spec);
  bool joins = false;  // many calls at once, too
};

// Every kernel of the CPU device, in order (cpu/kernel_list.inc).
absl::Span<const KernelEntry> CpuKernels();
// NotFound names the op and its dtypes.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareCpuKernel(const KernelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_KERNELS_KERNEL_H_
