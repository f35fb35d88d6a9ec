// Prints what cuDNN supports of our convolutions and attention on cards that need not be here:
//   ./bazelw run --config=cuda //framework/kernels/cuda:cudnn_support
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "framework/base/process.h"
#include "framework/kernels/cuda/cudnn_cases.h"

int main() {
  return sluice::RunProcess("cudnn_support", [] {
    const auto table = sluice::cuda::CudnnSupport();
    if (!table.ok()) {
      absl::FPrintF(stderr, "%s\n", table.status().ToString());
      return 1;
    }
    absl::PrintF("%s", *table);
    return sluice::FlushOutput().ok() ? 0 : 1;
  });
}
