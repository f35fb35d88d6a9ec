// Predicted against measured step time of layouts of the GPT on this machine, and where the
// prediction errs: see docs/machine.md. Kernels are measured by kind and size first, or were before
// (--calibration); no figure here is fitted to a step.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/calibration.h"
#include "bench/layout_timing.h"
#include "framework/base/status.h"
#include "framework/runtime/trace.h"
#include "framework/train/command.h"
#include "framework/train/machine_file.h"

ABSL_FLAG(std::string, calibration, "", "machine.txt of //bench:calibrate; none: calibrates first");
ABSL_FLAG(std::string, models, "tiny,default", "presets of the trainer");
ABSL_FLAG(int64_t, rounds, 7, "times that each layout has its turn");
ABSL_FLAG(int64_t, steps_a_round, 4, "steps of a turn");

namespace sluice {
namespace {

struct Layout {
  const char* mesh;
  int64_t micro_batches;
};
constexpr Layout kLayouts[] = {{"data=1", 1},        {"data=2", 1},
                               {"model=2", 1},       {"pipe=2", 2},
                               {"pipe=2", 4},        {"data=2 model=2", 1},
                               {"data=2 pipe=2", 2}, {"model=2 pipe=2", 2},
                               {"data=4", 1},        {"data=2 model=2 pipe=2", 2}};
constexpr int kShown = 3;

double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

std::string LoadAverage() {
  std::ifstream file("/proc/loadavg");
  std::string load = "?";
  file >> load;
  return load;
}

absl::StatusOr<Machine> ReadOrMeasure(const std::string& path) {
  if (path.empty()) {
    const int64_t begin = NowNanoseconds();
    ASSIGN_OR_RETURN(Machine machine, Calibrate({}, {}));
    absl::PrintF("calibrated in %.1f s\n",
                 Milliseconds(static_cast<double>(NowNanoseconds() - begin)) / 1e3);
    return machine;
  }
  ASSIGN_OR_RETURN(MachineFile file, ReadMachine(path));
  return std::move(file.machine);
}

// "matmul 41.0 for 44.1": ops by how much they lack, milliseconds of all workers together.
std::string Culprits(const LayoutTiming& timing) {
  std::vector<std::pair<std::string, OpTime>> ops(timing.ops.begin(), timing.ops.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second.measured - a.second.predicted) >
           std::abs(b.second.measured - b.second.predicted);
  });
  std::string text;
  for (int i = 0; i < kShown && i < static_cast<int>(ops.size()); ++i) {
    absl::StrAppendFormat(&text, "%s%s %.2f for %.2f", i > 0 ? ", " : "", ops[i].first,
                          Milliseconds(ops[i].second.predicted),
                          Milliseconds(ops[i].second.measured));
  }
  return text;
}

absl::Status Print() {
  ASSIGN_OR_RETURN(const Machine machine, ReadOrMeasure(absl::GetFlag(FLAGS_calibration)));
  std::vector<TimedLayout> layouts;
  for (absl::string_view model : absl::StrSplit(absl::GetFlag(FLAGS_models), ',')) {
    for (const Layout& layout : kLayouts) {
      ASSIGN_OR_RETURN(TimedLayout timed, TimedLayout::Compile(std::string(model), layout.mesh,
                                                               layout.micro_batches, machine));
      layouts.push_back(std::move(timed));
    }
  }
  ASSIGN_OR_RETURN(
      const std::vector<LayoutTiming> timings,
      TimeLayouts(layouts, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_steps_a_round)));
  absl::PrintF("%-8s %-32s %9s %9s %7s  %s\n", "model", "layout", "predicted", "measured", "error",
               "predicted for measured by kind, ms of all workers");
  double sum = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const double predicted = static_cast<double>(layouts[i].predicted().step_nanoseconds);
    const double error = predicted / timings[i].median - 1;
    sum += std::abs(error);
    absl::PrintF("%-8s %-32s %6.2f ms %6.2f ms %+6.1f%%  %s\n", layouts[i].model(),
                 layouts[i].name(), Milliseconds(predicted), Milliseconds(timings[i].median),
                 100 * error, Culprits(timings[i]));
  }
  absl::PrintF("mean absolute error %.1f%% over %d layouts; load average %s\n",
               100 * sum / static_cast<double>(layouts.size()), layouts.size(), LoadAverage());
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand({"predict",
                             "Predicts and measures a training step on ten layouts.\n",
                             {{"Flags",
                               {{"calibration", "FILE", ""},
                                {"models", "NAMES", ""},
                                {"rounds", "N", ""},
                                {"steps_a_round", "N", ""}}}},
                             {},
                             sluice::Print},
                            argc, argv);
}
