// The command line of the trainer: flags, presets, and what they come to. Called by main, before
// other threads start.
#ifndef SLUICE_MODELS_GPT_OPTIONS_H_
#define SLUICE_MODELS_GPT_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/machine/machine.h"
#include "framework/nn/schedule.h"
#include "framework/passes/optimizer.h"
#include "framework/session/session.h"
#include "models/gpt/gpt.h"

namespace sluice {

// A named model with what trains it well.
struct GptPreset {
  std::string name, what;
  GptConfig config;
  int64_t steps = 1000, warmup = 20;
  double lr = 1e-3;
};
const std::vector<GptPreset>& GptPresets();  // the first is what runs without flags

struct TrainOptions {
  std::string preset, data, out;
  std::string resume;  // a checkpoint; empty: from the start
  // Later ones of the same run that are not as they were written: set aside before it goes on.
  std::vector<DamagedCheckpoint> damaged;
  GptConfig config;
  OptimizerOptions optimizer;
  Schedule schedule;
  SessionOptions session;
  int64_t stages = 1, devices = 1;  // of the mesh
  int64_t eval_every = 0, save_every = 0, keep = 3;
  bool sample = false, explain = false;
  std::string prompt;
  int64_t sample_length = 0;
  double temperature = 0;
  // Every flag with its value, in order, for the run's folder and its checkpoints.
  std::vector<std::pair<std::string, std::string>> resolved;
};

// What //bench:calibrate wrote. Errors name the path.
absl::StatusOr<Machine> ReadMachine(const std::string& path);

// Help for people.
std::string TrainHelp();

// Flags over those of a resumed run over the preset. `now` names the folder of a new run. Errors
// are of one line; `help` is set, and nothing else read, where --help stood.
absl::StatusOr<TrainOptions> ParseTrainOptions(const std::vector<std::string>& arguments,
                                               const std::string& now, bool* help);

}  // namespace sluice

#endif  // SLUICE_MODELS_GPT_OPTIONS_H_
