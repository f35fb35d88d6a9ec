#include "framework/conformance/cuda_run.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/kernels/cuda/support.h"
#include "framework/testing/cuda_order.h"

namespace sluice {
namespace {

// The first element whose bits differ and which is not NaN in both; -1 if there is none.
int64_t FirstDifference(const HostTensor& a, const HostTensor& b) {
  const int64_t size = SizeOf(a.dtype), n = a.shape.NumElements();
  for (int64_t i = 0; i < n; ++i) {
    if (std::equal(a.bytes.begin() + i * size, a.bytes.begin() + (i + 1) * size,
                   b.bytes.begin() + i * size)) {
      continue;
    }
    if (IsFloat(a.dtype) && std::isnan(LoadElement(a.dtype, a.bytes.data(), i)) &&
        std::isnan(LoadElement(b.dtype, b.bytes.data(), i))) {
      continue;
    }
    return i;
  }
  return -1;
}

}  // namespace

absl::StatusOr<KernelRun> RunOnCuda(const KernelCall& call) {
  BeginCudaOrder(static_cast<uint64_t>(call.threads), /*checks=*/true);
  absl::StatusOr<KernelRun> run = RunKernelOn(CudaSupport(), DeviceKind::kCuda, call);
  for (const std::string& error : TakeCudaErrors()) {
    return absl::InternalError(absl::StrCat("emulation: ", error));
  }
  return run;
}

std::string BitsOfCpu(const KernelCall& call, const KernelRun& run) {
  const absl::StatusOr<KernelRun> cpu = RunKernel(call);
  if (!cpu.ok()) return cpu.status().ToString();
  for (size_t i = 0; i < run.bytes.size(); ++i) {
    const int64_t at = FirstDifference(run.bytes[i], cpu->bytes[i]);
    if (at < 0) continue;
    const DType dtype = run.bytes[i].dtype;
    return absl::StrCat(call.op, ": operand ", i, " has other bits than on a CPU: element ", at,
                        " is ", LoadElement(dtype, run.bytes[i].bytes.data(), at), " and not ",
                        LoadElement(dtype, cpu->bytes[i].bytes.data(), at));
  }
  return "";
}

}  // namespace sluice
