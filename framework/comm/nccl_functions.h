// The functions of NCCL that the framework calls: of the library that is installed, opened by name
// at the first call, or of the emulation, which is linked.
#ifndef SLUICE_FRAMEWORK_COMM_NCCL_FUNCTIONS_H_
#define SLUICE_FRAMEWORK_COMM_NCCL_FUNCTIONS_H_

#include <nccl.h>

#include "absl/status/statusor.h"

namespace sluice {

// In the order of nccl_functions_*.cc.
struct NcclFunctions {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
};

// The same for all callers; any thread. Errors: of the loader, which says what to install.
absl::StatusOr<const NcclFunctions*> FindNccl();

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_COMM_NCCL_FUNCTIONS_H_
