#include "framework/comm/nccl_functions.h"

namespace sluice {

absl::StatusOr<const NcclFunctions*> FindNccl() {
  static constexpr NcclFunctions functions = {
      ncclGetUniqueId, ncclCommInitRankConfig, ncclCommFinalize,   ncclCommDestroy,
      ncclCommAbort,   ncclCommGetAsyncError,  ncclGetErrorString, ncclGetLastError,
      ncclGroupStart,  ncclGroupEnd,           ncclAllReduce,      ncclReduceScatter,
      ncclAllGather,
  };
  return &functions;
}

}  // namespace sluice
