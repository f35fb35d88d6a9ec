#include "framework/kernels/cpu/onednn.h"

#include <sys/mman.h>

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/kernels/cpu/library_call.h"

namespace sluice::cpu {

absl::Status StatusOf(dnnl_status_t status, absl::string_view call) {
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN: ", call, " gave status ", status));
}

namespace {

// oneDNN looks at few of its own allocations, and where one fails most of its calls end the process
// by a segmentation fault. So room that its objects and code fit into many times is asked for
// before it is called. Another thread may take it in between, which is rare: few processes are that
// close to their limit.
absl::Status ExpectRoom() {
  constexpr size_t kRoom = size_t{8} << 20;
  void* const room =
      mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) {
    munmap(room, kRoom);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("out of memory: oneDNN expects room for some objects, and the limit of the "
                   "address space leaves less than ",
                   kRoom, " bytes"));
}

}  // namespace

absl::StatusOr<Engine> MakeEngine() {
  RETURN_IF_ERROR(ExpectRoom());
  dnnl_engine_t engine;
  RETURN_IF_ERROR(StatusOf(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine_create"));
  return Engine(engine);
}

absl::StatusOr<PrimitiveAttributes> WithCallersScratch() {
  dnnl_primitive_attr_t made;
  RETURN_IF_ERROR(StatusOf(dnnl_primitive_attr_create(&made), "primitive_attr_create"));
  PrimitiveAttributes attributes(made);
  RETURN_IF_ERROR(StatusOf(dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user),
                           "primitive_attr_set_scratchpad_mode"));
  return attributes;
}

std::string ImplementationOf(const_dnnl_primitive_desc_t description) {
  const char* name = "";
  SLUICE_CHECK(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) ==
               dnnl_success);
  return name;
}

bool IsReference(absl::string_view implementation) {
  return absl::StrContains(implementation, "ref") || absl::StrContains(implementation, "simple");
}

absl::StatusOr<Primitive> Primitive::Make(const_dnnl_primitive_desc_t description,
                                          dnnl_engine_t engine,
                                          absl::Span<const Argument> arguments) {
  RETURN_IF_ERROR(ExpectRoom());
  Primitive made;
  dnnl_stream_t stream;
  RETURN_IF_ERROR(
      StatusOf(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream_create"));
  made.stream_.reset(stream);
  dnnl_primitive_t primitive;
  RETURN_IF_ERROR(StatusOf(dnnl_primitive_create(&primitive, description), "primitive_create"));
  made.primitive_.reset(primitive);
  for (const Argument& argument : arguments) {
    dnnl_memory_t memory;
    RETURN_IF_ERROR(StatusOf(dnnl_memory_create(&memory, argument.layout, engine, DNNL_MEMORY_NONE),
                             "memory_create"));
    made.memories_.emplace_back(memory);
    made.arguments_.push_back({argument.name, memory});
  }
  return made;
}

void Primitive::Run(absl::Span<const std::byte* const> operands) const {
  ScopedLibraryCall call;
  SLUICE_CHECK(operands.size() == memories_.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    SLUICE_CHECK(dnnl_memory_set_data_handle_v2(memories_[i].get(),
                                                const_cast<std::byte*>(operands[i]),
                                                stream_.get()) == dnnl_success);
  }
  SLUICE_CHECK(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                      static_cast<int>(arguments_.size()),
                                      arguments_.data()) == dnnl_success);
}

}  // namespace sluice::cpu
