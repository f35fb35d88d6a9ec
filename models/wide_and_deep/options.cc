#include "models/wide_and_deep/options.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "models/wide_and_deep/presets.h"

ABSL_FLAG(std::string, split, "",
          "what of flights is held out: random, a fifth of them, or forward, "
          "the last two months");
ABSL_FLAG(std::string, widths, "", "of the embeddings of each deep table, in order: \"8,16\"");
ABSL_FLAG(std::string, hidden, "", "widths of the deep part's layers: \"128,64\"");
ABSL_FLAG(double, dropout, 0, "share of hidden activations set to zero while training");
ABSL_FLAG(int64_t, vocabulary, 0, "of logs and drawn samples: rows of a table, for all features");
ABSL_FLAG(bool, split_columns, false,
          "split deep tables over the mesh's axes model and table by columns, instead of rows");
ABSL_FLAG(bool, tables_apart, false,
          "tables on the first of two pipeline stages, layers on the second: with "
          "--mesh=\"pipe=2 @cpu,cuda\" in the host's memory, and on a card");
ABSL_FLAG(double, wide_lr, 0, "learning rate of the wide part's FTRL at its highest");
ABSL_FLAG(double, l1, 0, "FTRL's pull to exactly 0");
ABSL_FLAG(double, l2, 0, "FTRL's pull towards 0");
ABSL_FLAG(bool, synthetic, false, "draw samples at random instead of reading --data");

namespace sluice {
namespace {

constexpr char kHelp[] =
    "Trains a Wide & Deep model to tell which flights are late, on devices that this machine's\n"
    "cores play. `bazel run //tools:dataset -- fetch flights-2013` brings them.\n\n"
    "  bazel run //models/wide_and_deep:train -- --preset=forward\n"
    "  bazel run //models/wide_and_deep:train -- --mesh=model=4 --optimizer=adagrad --lr=0.02 "
    "--weight_decay=0\n"
    "  bazel run //models/wide_and_deep:train -- --preset=synthetic --vocabulary=10000000 "
    "--mesh=model=4 --explain\n"
    "  bazel run //models/wide_and_deep:train -- --preset=logs --data=criteo/train.txt\n";

constexpr char kByPreset[] = "by preset";
constexpr char kFlights[] = "flights-2013";

Preset FlagsOf(const WideAndDeepPreset& preset) {
  return {preset.name,
          preset.what,
          {{"data", preset.synthetic || preset.name == "logs" ? "" : kFlights},
           {"split", preset.split},
           {"widths", preset.widths},
           {"hidden", preset.hidden},
           {"dropout", absl::StrCat(preset.dropout)},
           {"vocabulary", absl::StrCat(preset.vocabulary)},
           {"wide_lr", absl::StrCat(preset.wide_lr)},
           {"synthetic", preset.synthetic ? "true" : "false"},
           {"batch", absl::StrCat(preset.batch)},
           {"steps", absl::StrCat(preset.steps)},
           {"lr", absl::StrCat(preset.lr)},
           {"warmup", absl::StrCat(preset.warmup)},
           {"weight_decay", absl::StrCat(preset.weight_decay)}}};
}

absl::StatusOr<std::vector<int64_t>> Widths(absl::string_view flag, const std::string& text) {
  std::vector<int64_t> widths;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    int64_t width;
    if (!absl::SimpleAtoi(word, &width)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": expected numbers between commas, got \"", text, "\""));
    }
    widths.push_back(width);
  }
  return widths;
}

// Of what the data is, without reading it: a path that is a file has a log.
absl::StatusOr<WideAndDeepConfig> Tables(const AppOptions& options, const ClickDataOptions& data) {
  std::error_code error;
  if (data.synthetic || std::filesystem::is_regular_file(options.data, error)) {
    constexpr int64_t kFewest = 2 * 26;  // two rows a feature
    const int64_t vocabulary = absl::GetFlag(FLAGS_vocabulary);
    RETURN_IF_ERROR(CheckFlag("vocabulary", static_cast<double>(vocabulary), kFewest, 1 << 30));
    return LogTables(vocabulary);
  }
  return FlightTables(data.split);
}

}  // namespace

AppFlags WideAndDeepFlags() {
  AppFlags flags;
  flags.help = kHelp;
  flags.data = {
      "data", "PATH", kByPreset,
      "a folder with flights.csv, weather.csv and planes.csv, a file of click logs as "
      "Criteo gives them or, .raw or .bin, in HugeCTR's Raw format, or the name of a data set "
      "that //tools:dataset fetched"};
  flags.model = {{"split", "NAME", kByPreset},
                 {"widths", "N,N", kByPreset},
                 {"hidden", "N,N", kByPreset},
                 {"dropout", "X", kByPreset},
                 {"vocabulary", "N", kByPreset},
                 {"split_columns", "", ""},
                 {"tables_apart", "", ""},
                 {"wide_lr", "X", kByPreset},
                 {"l1", "X", ""},
                 {"l2", "X", ""},
                 {"synthetic", "", kByPreset}};
  for (const WideAndDeepPreset& preset : WideAndDeepPresets()) {
    flags.presets.push_back(FlagsOf(preset));
  }
  flags.shape = {"split", "widths", "hidden", "vocabulary"};
  return flags;
}

absl::StatusOr<WideAndDeepOptions> ReadWideAndDeepFlags(const AppOptions& options) {
  WideAndDeepOptions read;
  const std::string split = absl::GetFlag(FLAGS_split);
  if (split != "random" && split != "forward") {
    return absl::InvalidArgumentError(
        absl::StrCat("--split: expected random or forward, got \"", split, "\""));
  }
  read.data.split = split == "forward" ? FlightSplit::kForward : FlightSplit::kRandom;
  read.data.synthetic = absl::GetFlag(FLAGS_synthetic);
  read.data.seed = options.session.seed;
  if (!read.data.synthetic && options.data.empty()) {
    return absl::InvalidArgumentError("--data: expected a folder or a file, got none");
  }
  ASSIGN_OR_RETURN(WideAndDeepConfig config, Tables(options, read.data));
  ASSIGN_OR_RETURN(const std::vector<int64_t> widths,
                   Widths("widths", absl::GetFlag(FLAGS_widths)));
  if (widths.size() != config.tables.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--widths: expected ", config.tables.size(),
                                                   ", one a table, got ", widths.size()));
  }
  for (size_t i = 0; i < widths.size(); ++i) config.tables[i].width = widths[i];
  ASSIGN_OR_RETURN(config.hidden, Widths("hidden", absl::GetFlag(FLAGS_hidden)));
  config.dropout = absl::GetFlag(FLAGS_dropout);
  config.split_columns = absl::GetFlag(FLAGS_split_columns);
  config.tables_apart = absl::GetFlag(FLAGS_tables_apart);
  config.batch = options.batch;
  config.precision = options.precision;
  RETURN_IF_ERROR(AddContext(CheckWideAndDeep(config, options.stages), "model"));
  read.config = std::move(config);
  const double wide_lr = absl::GetFlag(FLAGS_wide_lr);
  RETURN_IF_ERROR(CheckFlag("wide_lr", wide_lr, 0, 100));
  RETURN_IF_ERROR(CheckFlag("l1", absl::GetFlag(FLAGS_l1), 0, 1e9));
  RETURN_IF_ERROR(CheckFlag("l2", absl::GetFlag(FLAGS_l2), 0, 1e9));
  read.optimizer = options.optimizer;
  read.optimizer.l1 = absl::GetFlag(FLAGS_l1);
  read.optimizer.l2 = absl::GetFlag(FLAGS_l2);
  const double lr = options.schedule.peak;
  if (lr == 0 && wide_lr != 0) {
    return absl::InvalidArgumentError("--wide_lr: expected 0 where --lr is 0, as it rises with it");
  }
  read.optimizer.groups = {WideGroup(lr == 0 ? 0 : wide_lr / lr)};
  return read;
}

}  // namespace sluice
