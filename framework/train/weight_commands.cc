#include "framework/train/weight_commands.h"

#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/train/command.h"

ABSL_FLAG(std::string, checkpoint, "", "a checkpoint: <run>/checkpoints/step-<n>");
ABSL_FLAG(std::string, model, "",
          "folder with config.json, model.safetensors or its shards, and the tokenizer");
ABSL_FLAG(std::string, out, "", "folder that is written");
ABSL_FLAG(std::string, max_shard_size, "50GB",
          "the most bytes of tensors in a file, as 5GB or 500MB; a larger model is written as "
          "model-00001-of-0000N.safetensors .. and model.safetensors.index.json");

namespace sluice {

absl::StatusOr<int64_t> ParseSize(absl::string_view text) {
  constexpr std::pair<absl::string_view, int64_t> kUnits[] = {
      {"KIB", int64_t{1} << 10}, {"MIB", int64_t{1} << 20}, {"GIB", int64_t{1} << 30}, {"KB", 1000},
      {"MB", 1'000'000},         {"GB", 1'000'000'000}};
  const std::string upper = absl::AsciiStrToUpper(text);
  absl::string_view digits = upper;
  int64_t unit = 1, number = 0, size = 0;
  for (const auto& [name, bytes] : kUnits) {
    if (unit == 1 && absl::ConsumeSuffix(&digits, name)) unit = bytes;
  }
  if (absl::SimpleAtoi(digits, &number) && number > 0 &&
      !__builtin_mul_overflow(number, unit, &size)) {
    return size;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a size such as 5GB, 500MB or 1000000, got \"", text, "\""));
}

int RunExportCommand(const ExportCommand& command, int argc, char** argv) {
  FlagGroup group = {"Flags",
                     {{"checkpoint", "PATH", ""},
                      {"out", "FOLDER", "", "folder for model.safetensors and what goes with it"},
                      {"max_shard_size", "SIZE", ""}}};
  group.flags.insert(group.flags.end(), command.flags.begin(), command.flags.end());
  const auto run = [&]() -> absl::Status {
    const std::string out = absl::GetFlag(FLAGS_out);
    ExportOptions options;
    const absl::StatusOr<int64_t> size = ParseSize(absl::GetFlag(FLAGS_max_shard_size));
    if (!size.ok()) return AddContext(size.status(), "--max_shard_size");
    options.most_shard_bytes = *size;
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     command.write(absl::GetFlag(FLAGS_checkpoint), out, options));
    absl::PrintF("%s: %s\n", out, absl::StrJoin(files, ", "));
    return absl::OkStatus();
  };
  return RunCommand({"export", command.help, {group}, {"checkpoint", "out"}, run}, argc, argv);
}

int RunImportCommand(const ImportCommand& command, int argc, char** argv) {
  const FlagGroup group = {
      "Flags",
      {command.model,
       {"out", "FOLDER", "", "folder for the checkpoint, which becomes its step-000000"}}};
  const auto run = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const ImportedWeights imported,
                     command.read(absl::GetFlag(FLAGS_model), absl::GetFlag(FLAGS_out)));
    absl::PrintF("%s\n", imported.checkpoint);
    if (imported.widened > 0) {
      absl::PrintF(
          "%d tensors of 16 bits were widened to f32, which loses nothing; export writes f32\n",
          imported.widened);
    }
    for (const std::string& remark : imported.remarks) absl::PrintF("%s\n", remark);
    return absl::OkStatus();
  };
  return RunCommand({"import", command.help, {group}, {"model", "out"}, run}, argc, argv);
}

}  // namespace sluice
