// Measures this machine and writes its description, which //models/gpt:train and //bench:predict
// read: see docs/machine.md.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "bench/calibration.h"
#include "framework/base/status.h"
#include "framework/train/flags.h"

ABSL_FLAG(std::string, out, "machine.txt", "file to write");

namespace sluice {
namespace {

absl::Status Write(const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const Machine machine, Calibrate({}, [](const std::string& kernel) {
                     absl::FPrintF(stderr, "\r%-40s", kernel);
                   }));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::ofstream file(path);
  file << machine.ToString() << "\n";
  file.close();
  if (!file) return absl::UnavailableError("cannot write " + path);
  absl::FPrintF(stderr, "\r%-40s\r", "");
  absl::PrintF(
      "%s: %d cores, %d kernels in %.1f s\n"
      "one device of many: matmul %.0f GFLOP/s, memory %.1f GB/s, copies %.1f GB/s\n"
      "an instruction %d ns, a message %d ns, to a sleeper %d ns\n",
      path, machine.cores, machine.kernels.size(), seconds.count(), machine.flops_per_second / 1e9,
      machine.memory_bytes_per_second / 1e9, machine.inner_bytes_per_second / 1e9,
      machine.launch_nanoseconds, machine.latency_nanoseconds,
      machine.latency_nanoseconds + machine.wake_nanoseconds);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const std::vector<FlagGroup> groups = {{"Flags", {{"out", "FILE", ""}}}};
  ParsedFlags parsed;
  absl::Status status =
      ParseFlags(groups, std::vector<std::string>(argv + 1, argv + argc), &parsed);
  if (status.ok() && parsed.help) {
    absl::PrintF(
        "%s",
        FlagsHelp("Measures this machine in about 15 seconds: let nothing else run.\n", groups));
    return 0;
  }
  const bool usage = !status.ok();
  const char* caller = getenv("BUILD_WORKING_DIRECTORY");
  if (status.ok() && caller != nullptr && chdir(caller) != 0) {
    status = absl::NotFoundError(std::string("cannot enter ") + caller);
  }
  if (status.ok()) status = Write(absl::GetFlag(FLAGS_out));
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "calibrate: %s\n", status.message());
  return usage ? 2 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
