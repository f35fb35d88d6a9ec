// The command line of a program that trains a model: the flags that every model has, those that one
// brings, presets, a run that is resumed, and what they come to. Called by main, before other
// threads start.
#ifndef SLUICE_FRAMEWORK_TRAIN_APP_OPTIONS_H_
#define SLUICE_FRAMEWORK_TRAIN_APP_OPTIONS_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/nn/learning_rate.h"
#include "framework/passes/mixed_precision.h"
#include "framework/passes/optimizer.h"
#include "framework/session/session.h"
#include "framework/train/flags.h"
#include "framework/train/job.h"
#include "framework/train/run_folder.h"

namespace sluice {

// Values of flags that go together, under a name; flags that are given go over them.
struct Preset {
  std::string name, what;
  std::vector<std::pair<std::string, std::string>> flags;
};

// What a model adds to the command line. Its flags are its own, in files that its programs alone
// link; here are their names.
struct AppFlags {
  std::string help;              // what the program does, and examples
  FlagEntry data;                // how help shows --data
  std::vector<FlagEntry> model;  // below "Model", after --preset
  std::vector<FlagGroup> more;   // groups after "The run"
  std::vector<Preset> presets;   // at least one; the first is what runs without flags
  // Those of `model` that are not recorded, as they say what is done with a run rather than what it
  // is. Of `more` none is.
  std::set<std::string> not_recorded;
  // Those of `model` that a trained one cannot change.
  std::set<std::string> shape;
  // Those of `shape` and others that change what parameters mean and not their shapes, such as the
  // number of heads: --init refuses a checkpoint that has them otherwise.
  std::set<std::string> meaning;
  // A switch of the model: with the run that --resume names, do what else follows training, and
  // stop. Empty: there is none.
  std::string use;
};

constexpr int64_t kAllBatches = INT64_MAX;

struct AppOptions {
  std::string preset;
  std::string data;          // a file or a folder that exists or not; empty: the model's own choice
  std::string out;           // folder of the run
  bool out_by_time = false;  // nobody named it: where it is taken, it gets another name
  ResumePoint resume;        // without a checkpoint: from the start
  bool again = false;  // it was found in `out`: the command that began the run was given again
  bool change_data = false;
  std::string init;         // a checkpoint whose parameters a new run begins with; empty: anew
  std::string init_digest;  // Checkpoint::digest of it
  // Of a run that goes on: its --init, and the digest of that; empty where it was begun anew.
  std::string began_with, began_with_digest;
  std::vector<std::string> changed;  // of a run that goes on: "--lr=0.2, was 0.1"
  int64_t batch = 1;                 // samples a step
  LearningRateSchedule schedule;
  OptimizerOptions optimizer;  // its `zero` for the mesh of `session`
  PrecisionOptions precision;
  bool recompute_blocks = false;  // RecomputedRegions::kBlocks of the program that trains
  SessionOptions session;
  int64_t stages = 1, devices = 1;  // of the mesh
  int64_t eval_every = 0, save_every = 0, keep = 3;
  int64_t eval_batches = 8;                  // of an evaluation during training
  int64_t final_eval_batches = kAllBatches;  // of that after the last step; 0: there is none
  std::string keep_best;                     // TrainerOptions::keep_best
  std::string machine_file, machine_digest;  // --machine; empty: none
  JobOptions job;                            // of several processes
  bool explain = false;
  bool measure_peak = true;
  bool use = false;     // AppFlags::use stands on the command line
  std::string bundled;  // path of App::bundled; empty: it is not there
  // Every flag that is recorded with its value, in order, for the run's folder and its checkpoints.
  std::vector<std::pair<std::string, std::string>> recorded;
  // Flags that all ranks of a job must be told alike.
  std::vector<std::pair<std::string, std::string>> told;
};

// What main knows and flags do not say.
struct AppSurroundings {
  std::string now;       // names the folder of a new run
  std::string datasets;  // folder in which //tools:dataset puts what it fetches
  std::string bundled;   // AppOptions::bundled
  // Where launchers say which process this is; empty: nobody does.
  Environment environment = nullptr;
};

// Help for people.
std::string AppHelp(const AppFlags& flags);

// Flags over those of a resumed run over the preset. Errors are of one line; `help` is set, and
// nothing else read, where --help stood.
absl::StatusOr<AppOptions> ParseAppOptions(const AppFlags& flags,
                                           const std::vector<std::string>& arguments,
                                           const AppSurroundings& surroundings, bool* help);

// InvalidArgument that names a flag whose value is not within [low, high].
absl::Status CheckFlag(absl::string_view flag, double value, double low, double high);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_TRAIN_APP_OPTIONS_H_
