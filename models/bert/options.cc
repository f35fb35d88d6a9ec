#include "models/bert/options.h"

#include <algorithm>
#include <set>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/train/app_resume.h"
#include "models/bert/presets.h"

ABSL_FLAG(int64_t, layers, 0, "transformer blocks");
ABSL_FLAG(int64_t, hidden, 0, "width of the model; a multiple of heads");
ABSL_FLAG(int64_t, heads, 0, "attention heads");
ABSL_FLAG(int64_t, sequence_length, 0, "word pieces that the model sees at once");
ABSL_FLAG(int64_t, positions, 0,
          "positions that have an embedding, of a model that has seen longer texts; 0: as "
          "--sequence_length");
ABSL_FLAG(int64_t, vocabulary, 0, "word pieces that the model has an embedding for");
ABSL_FLAG(int64_t, predictions, 0, "masked words of a sample at most");
ABSL_FLAG(std::string, task, "",
          "pretrain: guess masked words and next sentences; classify: tell texts apart; both: the "
          "one and then, in a run of its own, the other");
ABSL_FLAG(int64_t, classes, 0, "classes of texts that --task=classify tells apart");
ABSL_FLAG(double, dropout, 0, "share of activations set to zero while training");
ABSL_FLAG(double, attention_dropout, 0, "share of attention's weights set to zero while training");
ABSL_FLAG(bool, tanh_gelu, false, "the tanh form of gelu, as Google's first code has it");
ABSL_FLAG(std::string, vocabulary_file, "",
          "word pieces: vocab.txt, a line each, or tokenizer.json; a tokenizer_config.json beside "
          "it says whether text is read in lower case; empty: those of the run that --init names, "
          "or learned from the text");

namespace sluice {
namespace {

constexpr char kHelp[] =
    "Pre-trains a BERT on text, or has one tell texts apart, on devices that this machine's cores\n"
    "play. Without flags it learns news and newsgroups, which `bazel run //tools:dataset -- fetch\n"
    "text-classes` brings, and then Reuters' eight classes.\n\n"
    "  bazel run //models/bert:train -- --out=runs/words\n"
    "  bazel run //models/bert:train -- --preset=classify "
    "--init=runs/words/checkpoints/step-004000\n"
    "  bazel run //models/bert:train -- --data=enwik8 --mesh=\"data=2 pipe=2\" --micro_batches=2\n";

constexpr char kByPreset[] = "by preset";

Preset FlagsOf(const BertPreset& preset) {
  const BertConfig& c = preset.config;
  const auto task = std::find_if(BertTasks().begin(), BertTasks().end(),
                                 [&](const auto& named) { return named.second == preset.task; });
  return {preset.name,
          preset.what,
          {{"data", preset.data},
           {"task", task->first},
           {"layers", absl::StrCat(c.layers)},
           {"hidden", absl::StrCat(c.hidden)},
           {"heads", absl::StrCat(c.heads)},
           {"sequence_length", absl::StrCat(c.sequence_length)},
           {"vocabulary", absl::StrCat(c.vocabulary)},
           {"predictions", absl::StrCat(c.predictions)},
           {"classes", absl::StrCat(c.classes)},
           {"dropout", absl::StrCat(c.dropout)},
           {"batch", absl::StrCat(c.batch)},
           {"steps", absl::StrCat(preset.steps)},
           {"lr", absl::StrCat(preset.lr)},
           {"warmup", absl::StrCat(preset.warmup)}}};
}

absl::StatusOr<BertTask> ReadTask() {
  const std::string name = absl::GetFlag(FLAGS_task);
  for (const auto& [known, task] : BertTasks()) {
    if (name == known) return task;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--task: expected pretrain, classify or both, got \"", name, "\""));
}

}  // namespace

std::vector<std::string> ClassifyingRun(const AppOptions& options, const std::string& run,
                                        int64_t step) {
  const std::string folder = absl::StrCat(run, "/classify");
  if (LatestCheckpoint(folder + "/checkpoints").ok()) return {absl::StrCat("--resume=", folder)};
  // All but what the preset knows better, and what the first run was for.
  const std::set<std::string> of_the_first = {"preset", "task",      "steps",   "warmup",
                                              "lr",     "keep_best", kInitFlag, kInitDigest};
  std::vector<std::string> arguments;
  for (const auto& [name, value] : options.recorded) {
    if (of_the_first.count(name) == 0) arguments.push_back(absl::StrCat("--", name, "=", value));
  }
  arguments.push_back("--preset=classify");
  arguments.push_back(absl::StrCat("--out=", folder));
  arguments.push_back(absl::StrFormat("--init=%s/checkpoints/step-%06d", run, step));
  return arguments;
}

AppFlags BertFlags() {
  AppFlags flags;
  flags.help = kHelp;
  flags.data = {"data", "PATH", kByPreset,
                "text: a file of documents with blank lines between them, a dump of Wikipedia, a "
                "file or folder of texts with classes, or the name of a data set that "
                "//tools:dataset fetched"};
  flags.model = {{"task", "NAME", kByPreset},
                 {"layers", "N", kByPreset},
                 {"hidden", "N", kByPreset},
                 {"heads", "N", kByPreset},
                 {"sequence_length", "N", kByPreset},
                 {"positions", "N", ""},
                 {"vocabulary", "N", kByPreset},
                 {"vocabulary_file", "FILE", ""},
                 {"predictions", "N", kByPreset},
                 {"classes", "N", kByPreset},
                 {"dropout", "X", kByPreset},
                 {"attention_dropout", "X", ""},
                 {"tanh_gelu", "", ""}};
  for (const BertPreset& preset : BertPresets()) flags.presets.push_back(FlagsOf(preset));
  // A checkpoint names no file that this process reads: a run has its vocabulary in its folder.
  flags.not_recorded = {"vocabulary_file"};
  flags.shape = {"task",      "layers",     "hidden", "heads", "sequence_length",
                 "positions", "vocabulary", "classes"};
  flags.meaning = {"heads", "tanh_gelu"};
  return flags;
}

absl::StatusOr<BertOptions> ReadBertFlags(const AppOptions& options) {
  BertOptions bert;
  BertConfig& config = bert.config;
  config.layers = absl::GetFlag(FLAGS_layers);
  config.hidden = absl::GetFlag(FLAGS_hidden);
  config.heads = absl::GetFlag(FLAGS_heads);
  config.sequence_length = absl::GetFlag(FLAGS_sequence_length);
  config.positions = absl::GetFlag(FLAGS_positions);
  config.vocabulary = absl::GetFlag(FLAGS_vocabulary);
  config.predictions = absl::GetFlag(FLAGS_predictions);
  ASSIGN_OR_RETURN(bert.task, ReadTask());
  const int64_t classes = absl::GetFlag(FLAGS_classes);
  if (bert.task != BertTask::kPretrain && classes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--classes: expected at least 1 to tell apart, got ", classes));
  }
  config.classes = bert.task == BertTask::kClassify ? classes : 0;
  bert.later_classes = bert.task == BertTask::kBoth ? classes : 0;
  config.dropout = absl::GetFlag(FLAGS_dropout);
  config.attention_dropout = absl::GetFlag(FLAGS_attention_dropout);
  config.tanh_gelu = absl::GetFlag(FLAGS_tanh_gelu);
  config.batch = options.batch;
  config.precision = options.precision;
  RETURN_IF_ERROR(AddContext(CheckBert(config, options.stages), "model"));
  bert.vocabulary_file = absl::GetFlag(FLAGS_vocabulary_file);
  return bert;
}

}  // namespace sluice
