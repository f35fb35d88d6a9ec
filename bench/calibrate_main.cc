// Measures this machine and writes its description, which //models/gpt:train and //bench:predict
// read: see docs/machine.md.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "bench/calibration.h"
#include "framework/base/status.h"
#include "framework/train/command.h"

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
  const Link& near = machine.link(LinkKind::kProcess);
  absl::FPrintF(stderr, "\r%-40s\r", "");
  absl::PrintF(
      "%s: %d cores, %d kernels in %.1f s\n"
      "one device of many: matmul %.0f GFLOP/s, memory %.1f GB/s, copies %.1f GB/s\n"
      "an instruction %d ns, a message %d ns, to a sleeper %d ns\n",
      path, machine.cores, machine.kernels.size(), seconds.count(), machine.flops_per_second / 1e9,
      machine.memory_bytes_per_second / 1e9, near.bytes_per_second / 1e9,
      machine.launch_nanoseconds, near.latency_nanoseconds,
      near.latency_nanoseconds + machine.wake_nanoseconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"calibrate",
       "Measures this machine in under 20 seconds on two cores: let nothing else run.\n",
       {{"Flags", {{"out", "FILE", ""}}}},
       {},
       [] { return sluice::Write(absl::GetFlag(FLAGS_out)); }},
      argc, argv);
}
