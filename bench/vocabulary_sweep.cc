// How far a vocabulary grows over devices: for each number of rows and each mesh the bytes that a
// device plans, those that cross devices in a step, and how long a step takes, or that the plan
// does not fit into a device (the original paper's figure on Wide & Deep).

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/click_batches.h"
#include "bench/quantiles.h"
#include "framework/base/status.h"
#include "framework/compiler/compile.h"
#include "framework/plan/statistics.h"
#include "framework/session/session.h"
#include "framework/train/command.h"
#include "models/wide_and_deep/click_data.h"
#include "models/wide_and_deep/wide_and_deep.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, vocabularies, "1000000,2000000,4000000,8000000",
          "rows of a table, for all of its 26 features");
ABSL_FLAG(std::string, meshes, "model=1,model=2,model=4", "each with the axes that it has");
ABSL_FLAG(double, device_memory, 0.5, "GiB that each device may take; 0: no limit");
ABSL_FLAG(int64_t, batch, 2048, "samples a step, over all devices together");
ABSL_FLAG(int64_t, width, 16, "elements of an embedding");
ABSL_FLAG(bool, split_columns, false, "split the deep table by columns instead of rows");
ABSL_FLAG(int64_t, warmup, 2, "steps before the clock starts");
ABSL_FLAG(int64_t, steps, 7, "timed steps");
ABSL_FLAG(std::string, out, "", "file for the same figures, a line of JSON each");

namespace sluice {
namespace {

struct Point {
  int64_t vocabulary = 0;
  std::string mesh;
  int64_t device_bytes = 0, variable_bytes = 0, wire_bytes = 0;  // of the first device, of a step
  bool fits = false;
  double step_seconds = 0;
};

absl::StatusOr<double> TimeSteps(Session* session, ClickBatches* batches) {
  const int64_t warmup = absl::GetFlag(FLAGS_warmup), steps = absl::GetFlag(FLAGS_steps);
  std::vector<double> seconds;
  Fetches fetches;
  int64_t begun = 0;
  auto last = std::chrono::steady_clock::now();
  for (int64_t done = 0; done < warmup + steps; ++done) {
    for (; begun < std::min(warmup + steps, done + Session::kStepsAhead); ++begun) {
      RETURN_IF_ERROR(session->Step("train", batches->StepFeeds(begun + 1)));
    }
    RETURN_IF_ERROR(session->Next(&fetches));
    const auto now = std::chrono::steady_clock::now();
    if (done >= warmup) seconds.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  }
  return Median(seconds);
}

absl::Status CountBytes(const Graph& graph, const std::string& mesh, Point* point) {
  CompileOptions options;
  ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(mesh));
  options.machine = Machine::Cpu();
  ASSIGN_OR_RETURN(const plan::Plan plan, CompilePlan({{"train", &graph}}, options));
  point->device_bytes = plan.devices(0).memory_bytes();
  point->variable_bytes = plan.devices(0).variable_bytes();
  ASSIGN_OR_RETURN(const ProgramIndex index, ProgramIndex::Build(plan.programs(0)));
  point->wire_bytes = CountProgram(index).wire_bytes;
  return absl::OkStatus();
}

absl::StatusOr<Point> Measure(int64_t vocabulary, const std::string& mesh, int64_t limit) {
  WideAndDeepConfig config = LogTables(vocabulary);
  config.tables[0].width = absl::GetFlag(FLAGS_width);
  config.hidden = {256, 128};
  config.batch = absl::GetFlag(FLAGS_batch);
  config.split_columns = absl::GetFlag(FLAGS_split_columns);
  OptimizerOptions optimizer;
  optimizer.clip = 1;
  optimizer.groups = {WideGroup(50)};
  Graph graph;
  RETURN_IF_ERROR(BuildWideAndDeepTrain(config, optimizer, &graph));
  Point point = {.vocabulary = vocabulary, .mesh = mesh};
  RETURN_IF_ERROR(CountBytes(graph, mesh, &point));
  SessionOptions options;
  options.mesh = mesh;
  options.device_memory_limit = limit;
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Start({{"train", &graph}}, options);
  if (absl::IsResourceExhausted(session.status())) return point;
  RETURN_IF_ERROR(session.status());
  point.fits = true;
  ASSIGN_OR_RETURN(const std::shared_ptr<ClickBatches> batches, ClickBatches::Draw(config));
  ASSIGN_OR_RETURN(point.step_seconds, TimeSteps(session->get(), batches.get()));
  return point;
}

void Print(const Point& point) {
  constexpr double kMiB = 1 << 20;
  absl::PrintF("%12d  %-16s  %9.1f MiB  %9.1f MiB  %8.2f MiB  %s\n", point.vocabulary, point.mesh,
               static_cast<double>(point.device_bytes) / kMiB,
               static_cast<double>(point.variable_bytes) / kMiB,
               static_cast<double>(point.wire_bytes) / kMiB,
               point.fits ? absl::StrFormat("%8.1f ms", 1e3 * point.step_seconds) : "does not fit");
  std::fflush(stdout);
}

absl::Status Write(const std::string& path, const std::vector<Point>& points) {
  std::ofstream file(path);
  for (const Point& point : points) {
    nlohmann::json line = {{"benchmark", "vocabulary_sweep"},
                           {"vocabulary", point.vocabulary},
                           {"mesh", point.mesh},
                           {"device_bytes", point.device_bytes},
                           {"variable_bytes", point.variable_bytes},
                           {"wire_bytes", point.wire_bytes},
                           {"fits", point.fits}};
    if (point.fits) line["step_ms"] = 1e3 * point.step_seconds;
    file << line.dump() << "\n";
  }
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  return absl::OkStatus();
}

absl::Status Sweep() {
  for (const auto& [name, value] :
       {std::pair<const char*, int64_t>{"warmup", absl::GetFlag(FLAGS_warmup)},
        {"steps", absl::GetFlag(FLAGS_steps)}}) {
    if (value >= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": expected at least 1, got ", value));
  }
  const auto limit = static_cast<int64_t>(absl::GetFlag(FLAGS_device_memory) * (1 << 30));
  absl::PrintF("%12s  %-16s  %13s  %13s  %12s  %11s\n", "vocabulary", "mesh", "a device",
               "of variables", "on the wire", "a step");
  std::vector<Point> points;
  for (const absl::string_view word :
       absl::StrSplit(absl::GetFlag(FLAGS_vocabularies), ',', absl::SkipEmpty())) {
    int64_t vocabulary;
    if (!absl::SimpleAtoi(word, &vocabulary)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--vocabularies: expected numbers between commas, got \"", word, "\""));
    }
    for (const absl::string_view mesh :
         absl::StrSplit(absl::GetFlag(FLAGS_meshes), ',', absl::SkipEmpty())) {
      ASSIGN_OR_RETURN(const Point point, Measure(vocabulary, std::string(mesh), limit));
      Print(point);
      points.push_back(point);
    }
  }
  const std::string out = absl::GetFlag(FLAGS_out);
  return out.empty() ? absl::OkStatus() : Write(out, points);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::RunCommand(
      {"vocabulary_sweep",
       "Sweeps the vocabulary of a Wide & Deep model over devices: time and "
       "bytes.\n",
       {{"What runs",
         {{"vocabularies", "N,N", ""},
          {"meshes", "AXES,AXES", ""},
          {"device_memory", "GIB", ""},
          {"batch", "N", ""},
          {"width", "N", ""},
          {"split_columns", "", ""}}},
        {"How it is measured", {{"warmup", "N", ""}, {"steps", "N", ""}, {"out", "FILE", "none"}}}},
       {},
       [] { return sluice::Sweep(); }},
      argc, argv);
}
