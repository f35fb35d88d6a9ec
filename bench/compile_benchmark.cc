// How long the plan of a GPT takes to compile. Beside the whole, counters give seconds by phase;
// "graph" is the model with its gradients and updates. Time depends on the number of ops and not on
// widths, so hidden is 256 everywhere.
#include <chrono>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "framework/compiler/compile.h"
#include "models/gpt/gpt.h"

namespace sluice {
namespace {

class Stopwatch {
 public:
  double Seconds() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Arguments: layers; data, model, pipe of the mesh; 1 for the train program, 3 for a session's; 1
// if the plan holds all devices, 0 if their representatives alone.
void CompileGpt(benchmark::State& state) {
  const int64_t data = state.range(1), stages = state.range(3);
  const bool all_programs = state.range(4) == 3;
  const auto mesh =
      Mesh::Parse(absl::StrCat("data=", data, " model=", state.range(2), " pipe=", stages));
  GptConfig config;
  config.layers = state.range(0);
  config.hidden = 256;
  config.heads = 8;
  config.batch = 2 * data * stages;
  std::map<std::string, double> phases;
  int64_t rounds = 0;
  for (auto _ : state) {
    Stopwatch watch;
    Graph train, eval, decode, prefill;
    absl::Status status = BuildGptTrain(config, OptimizerOptions(), &train);
    std::vector<ProgramGraph> programs = {{"train", &train}};
    if (all_programs) {
      status.Update(BuildGptEval(config, &eval));
      status.Update(BuildGptDecode(config, &decode));
      status.Update(BuildGptPrefill(config, &prefill));
      programs.push_back({"eval", &eval});
      programs.push_back({"decode", &decode});
      programs.push_back({"prefill", &prefill});
    }
    phases["graph"] += watch.Seconds();
    CompileOptions compile;
    compile.mesh = *mesh;
    compile.micro_batches = stages;
    compile.machine = Machine::Cpu();
    compile.representatives_only = state.range(5) == 0;
    compile.phase_end = [&](absl::string_view phase) {
      phases[std::string(phase)] += watch.Seconds();
    };
    const auto plan = CompilePlan(programs, compile);
    status.Update(plan.status());
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
    ++rounds;
  }
  for (const auto& [phase, seconds] : phases) {
    state.counters[phase] = seconds / static_cast<double>(rounds);
  }
  if (!all_programs && config.layers == 24) state.counters["goal"] = 1e9;
}

BENCHMARK(CompileGpt)
    ->Name("compile")
    ->ArgNames({"layers", "data", "model", "pipe", "programs", "whole"})
    ->Args({4, 1, 1, 1, 1, 1})
    ->Args({12, 1, 1, 1, 1, 1})
    ->Args({24, 1, 1, 1, 1, 1})
    ->Args({4, 2, 2, 2, 1, 1})
    ->Args({12, 2, 2, 2, 1, 1})
    ->Args({24, 2, 2, 2, 1, 1})
    ->Args({24, 8, 1, 1, 1, 1})
    ->Args({24, 4, 2, 1, 1, 1})
    ->Args({24, 2, 2, 2, 3, 1})
    ->Args({4, 16, 2, 2, 1, 1})
    ->Args({24, 2, 2, 2, 1, 0})
    ->Args({24, 16, 2, 2, 1, 0})
    ->Args({24, 256, 2, 2, 1, 0})
    ->Args({24, 2, 2, 2, 3, 0})
    ->Args({24, 256, 2, 2, 3, 0})
    ->Args({24, 8, 1, 1, 1, 0})
    ->Args({24, 1024, 1, 1, 1, 0})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
