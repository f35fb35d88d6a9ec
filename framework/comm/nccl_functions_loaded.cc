#include "framework/base/status.h"
#include "framework/comm/nccl_functions.h"
#include "framework/device/cuda_library.h"

namespace sluice {
namespace {

absl::StatusOr<NcclFunctions> Load() {
  ASSIGN_OR_RETURN(const CudaLibrary* const library, CudaLibrary::Nccl());
  absl::Status status;
  // Keeps the first that is missing.
  const auto find = [&]<typename Pointer>(const char* name, Pointer* pointer) {
    const absl::StatusOr<Pointer> found = library->Function<Pointer>(name);
    if (found.ok()) *pointer = *found;
    if (status.ok()) status = found.status();
  };
  NcclFunctions functions;
  find("ncclGetUniqueId", &functions.get_unique_id);
  find("ncclCommInitRankConfig", &functions.init_rank);
  find("ncclCommFinalize", &functions.finalize);
  find("ncclCommDestroy", &functions.destroy);
  find("ncclCommAbort", &functions.abort);
  find("ncclCommGetAsyncError", &functions.get_async_error);
  find("ncclGetErrorString", &functions.error_string);
  find("ncclGetLastError", &functions.last_error);
  find("ncclGroupStart", &functions.group_start);
  find("ncclGroupEnd", &functions.group_end);
  find("ncclAllReduce", &functions.all_reduce);
  find("ncclReduceScatter", &functions.reduce_scatter);
  find("ncclAllGather", &functions.all_gather);
  RETURN_IF_ERROR(status);
  return functions;
}

}  // namespace

absl::StatusOr<const NcclFunctions*> FindNccl() {
  static const auto& functions = *new absl::StatusOr<NcclFunctions>(Load());
  if (!functions.ok()) return functions.status();
  return &*functions;
}

}  // namespace sluice
