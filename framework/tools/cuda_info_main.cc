// Says which CUDA this build finds: driver, cards, libraries, and whether they work. Exit code 1
// if something is missing that training on GPUs needs.
//   ./bazelw run --config=cuda //framework/tools:cuda_info
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "framework/base/process.h"
#include "framework/device/cuda_device.h"
#include "framework/device/cuda_library.h"
#include "framework/tools/cuda_self_check.h"

namespace sluice {
namespace {

constexpr double kMebi = 1 << 20;

double ResidentMebibytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMebi;
}

// True if the card is there and runs a kernel.
bool PrintCard(int card) {
  cudaDeviceProp properties = {};
  const cudaError_t error = cudaGetDeviceProperties(&properties, card);
  if (error != cudaSuccess) {
    absl::PrintF("card %d: %s\n", card, cudaGetErrorString(error));
    return false;
  }
  const absl::Status checked = CheckCudaCard(card);
  absl::PrintF("card %d: %s, compute capability %d.%d, %d SMs, %.1f GiB; a kernel: %s\n", card,
               properties.name, properties.major, properties.minor, properties.multiProcessorCount,
               static_cast<double>(properties.totalGlobalMem) / kMebi / 1024,
               checked.ok() ? "runs" : checked.ToString());
  return checked.ok();
}

bool PrintCards() {
  const absl::StatusOr<int> cards = CountCudaCards();
  if (!cards.ok()) {
    absl::PrintF("%s\n", std::string(cards.status().message()));
    return false;
  }
  bool all = true;
  for (int card = 0; card < *cards; ++card) all = PrintCard(card) && all;
  return all;
}

bool PrintLibrary(absl::StatusOr<const CudaLibrary*> (*open)()) {
  const double before = ResidentMebibytes();
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<const CudaLibrary*> library = open();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (!library.ok()) {
    absl::PrintF("%s\n", std::string(library.status().message()));
    return false;
  }
  absl::PrintF("%s, opened in %.0f ms, %.0f MiB\n", (*library)->description(), took.count(),
               ResidentMebibytes() - before);
  return true;
}

int Run() {
  absl::PrintF("CUDA runtime %d.%d, %.0f MiB resident\n", CUDART_VERSION / 1000,
               CUDART_VERSION % 1000 / 10, ResidentMebibytes());
  bool all = PrintCards();
  for (const auto open : {CudaLibrary::CublasLt, CudaLibrary::Cudnn, CudaLibrary::Nccl}) {
    all = PrintLibrary(open) && all;
  }
  return all && FlushOutput().ok() ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main() { return sluice::RunProcess("cuda_info", sluice::Run); }
