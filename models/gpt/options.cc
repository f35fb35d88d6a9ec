#include "models/gpt/options.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/log.h"
#include "framework/base/status.h"
#include "framework/base/text.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/file.h"
#include "framework/sbp/mesh.h"
#include "framework/train/flags.h"

ABSL_FLAG(std::string, data, "",
          "text to learn from: a file, or a folder of which all files are read");
ABSL_FLAG(std::string, preset, "default", "sizes that go together: default, tiny or gpt_small");
ABSL_FLAG(int64_t, layers, 0, "transformer blocks");
ABSL_FLAG(int64_t, hidden, 0, "width of the model; a multiple of heads");
ABSL_FLAG(int64_t, heads, 0, "attention heads");
ABSL_FLAG(int64_t, sequence_length, 0, "bytes that the model sees at once");
ABSL_FLAG(double, dropout, 0, "share of activations set to zero while training");
ABSL_FLAG(int64_t, steps, 0, "length of the run; the learning rate falls to its end");
ABSL_FLAG(int64_t, batch, 0, "sequences a step, over all devices together");
ABSL_FLAG(double, lr, 0, "learning rate at its highest");
ABSL_FLAG(int64_t, warmup, 0, "steps in which the learning rate rises");
ABSL_FLAG(double, lr_floor, 0.1, "share of --lr that is left at the end; 1 keeps it constant");
ABSL_FLAG(double, clip, 1, "largest norm of the gradient; 0 never clips");
ABSL_FLAG(double, weight_decay, 0.1, "AdamW's pull towards zero, not on biases and norms");
ABSL_FLAG(uint64_t, seed, 1, "of initial values, dropout and the order of samples");
ABSL_FLAG(std::string, mesh, "data=2",
          "devices, as axes: \"data=2 model=2 pipe=2\" is eight; data splits the batch, model the "
          "weights, pipe the layers; data=1 is one device");
ABSL_FLAG(int64_t, micro_batches, 1,
          "shards of the batch that a device takes one after the other; must divide --batch");
ABSL_FLAG(int64_t, script_length, 0, "longest run of instructions of one actor; 0 is no limit");
ABSL_FLAG(
    std::string, machine, "",
    "what //bench:calibrate wrote: its costs decide the plan, and predict a step in --explain");
ABSL_FLAG(std::string, out, "", "folder for options, log and checkpoints");
ABSL_FLAG(int64_t, eval_every, 200,
          "steps between evaluations on held-out text; 0: only at the ends");
ABSL_FLAG(int64_t, save_every, 500, "steps between checkpoints; 0: only at the end");
ABSL_FLAG(int64_t, keep, 3, "checkpoints that stay");
ABSL_FLAG(std::string, resume, "",
          "go on with a run: its folder, or one of its checkpoints; its options hold unless given");
ABSL_FLAG(bool, sample, false, "write text with the run that --resume names, and stop");
ABSL_FLAG(std::string, prompt, "\n", "what the text begins with");
ABSL_FLAG(int64_t, sample_length, 300, "bytes to write; 0 writes none");
ABSL_FLAG(double, temperature, 0.8,
          "0 always takes the likeliest byte, 1 draws as the model believes");
ABSL_FLAG(bool, explain, false, "print plan, choices and bytes, and stop");
ABSL_FLAG(
    std::string, explain_html, "",
    "file for a page about the plan, for any browser; with --trace it shows what was measured "
    "beside what was predicted");
ABSL_FLAG(std::string, trace, "",
          "file for a timeline of every instruction; ui.perfetto.dev shows it");
ABSL_FLAG(bool, check_nan, false, "stop at the first op whose output has a NaN, and name it");

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kByPreset[] = "by preset";

std::vector<FlagGroup> Groups() {
  return {{"Data", {{"data", "PATH", "the sources of this repository"}}},
          {"Model",
           {{"preset", "NAME", ""},
            {"layers", "N", kByPreset},
            {"hidden", "N", kByPreset},
            {"heads", "N", kByPreset},
            {"sequence_length", "N", kByPreset},
            {"dropout", "X", kByPreset}}},
          {"Training",
           {{"steps", "N", kByPreset},
            {"batch", "N", kByPreset},
            {"lr", "X", kByPreset},
            {"warmup", "N", kByPreset},
            {"lr_floor", "X", ""},
            {"clip", "X", ""},
            {"weight_decay", "X", ""},
            {"seed", "N", ""}}},
          {"Machine",
           {{"mesh", "AXES", ""},
            {"micro_batches", "N", ""},
            {"script_length", "N", ""},
            {"machine", "FILE", "rough costs"}}},
          {"The run",
           {{"out", "DIR", "runs/<time>"},
            {"eval_every", "N", ""},
            {"save_every", "N", ""},
            {"keep", "N", ""},
            {"resume", "DIR", ""}}},
          {"Writing text",
           {{"sample", "", ""},
            {"prompt", "TEXT", "an end of line"},
            {"sample_length", "N", ""},
            {"temperature", "X", ""}}},
          {"Looking inside",
           {{"explain", "", ""},
            {"explain_html", "FILE", ""},
            {"trace", "FILE", ""},
            {"check_nan", "", ""}}}};
}

// What a run is, rather than what is done with it: recorded, and taken up by --resume.
std::set<std::string> NotRecorded() {
  return {"machine",       "out",         "resume",  "sample",       "prompt",
          "sample_length", "temperature", "explain", "explain_html", "trace"};
}

absl::Status Check(absl::string_view flag, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": expected ", low, " to ", high, ", got ", value));
}

absl::Status CheckNumbers() {
  constexpr double kMany = 1e9;
  RETURN_IF_ERROR(Check("steps", absl::GetFlag(FLAGS_steps), 1, kMany));
  RETURN_IF_ERROR(Check("lr", absl::GetFlag(FLAGS_lr), 0, 100));
  RETURN_IF_ERROR(Check("warmup", absl::GetFlag(FLAGS_warmup), 0, kMany));
  RETURN_IF_ERROR(Check("lr_floor", absl::GetFlag(FLAGS_lr_floor), 0, 1));
  RETURN_IF_ERROR(Check("clip", absl::GetFlag(FLAGS_clip), 0, kMany));
  RETURN_IF_ERROR(Check("weight_decay", absl::GetFlag(FLAGS_weight_decay), 0, 100));
  RETURN_IF_ERROR(Check("micro_batches", absl::GetFlag(FLAGS_micro_batches), 1, kMany));
  RETURN_IF_ERROR(Check("script_length", absl::GetFlag(FLAGS_script_length), 0, kMany));
  RETURN_IF_ERROR(Check("eval_every", absl::GetFlag(FLAGS_eval_every), 0, kMany));
  RETURN_IF_ERROR(Check("save_every", absl::GetFlag(FLAGS_save_every), 0, kMany));
  RETURN_IF_ERROR(Check("keep", absl::GetFlag(FLAGS_keep), 1, kMany));
  RETURN_IF_ERROR(Check("sample_length", absl::GetFlag(FLAGS_sample_length), 0, kMany));
  return Check("temperature", absl::GetFlag(FLAGS_temperature), 0, 100);
}

absl::Status ApplyPreset(const std::set<std::string>& given) {
  const std::string name = absl::GetFlag(FLAGS_preset);
  std::vector<std::string> names;
  const GptPreset* preset = nullptr;
  for (const GptPreset& known : GptPresets()) {
    names.push_back(known.name);
    if (known.name == name) preset = &known;
  }
  if (preset == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--preset: expected one of ", absl::StrJoin(names, ", "), ", got \"", name, "\""));
  }
  auto set = [&given](const char* flag_name, auto* flag, auto value) {
    if (given.count(flag_name) == 0) absl::SetFlag(flag, value);
  };
  const GptConfig& c = preset->config;
  set("layers", &FLAGS_layers, c.layers);
  set("hidden", &FLAGS_hidden, c.hidden);
  set("heads", &FLAGS_heads, c.heads);
  set("sequence_length", &FLAGS_sequence_length, c.sequence_length);
  set("dropout", &FLAGS_dropout, c.dropout);
  set("batch", &FLAGS_batch, c.batch);
  set("steps", &FLAGS_steps, preset->steps);
  set("lr", &FLAGS_lr, preset->lr);
  set("warmup", &FLAGS_warmup, preset->warmup);
  return absl::OkStatus();
}

// The newest whole checkpoint of a run, or of a folder of checkpoints.
absl::Status FindCheckpoint(const std::string& path, TrainOptions* options) {
  absl::StatusOr<std::string> latest = absl::NotFoundError("");
  for (const std::string& folder : {path + "/checkpoints", path}) {
    if (absl::IsNotFound(latest.status())) {
      latest = LatestGoodCheckpoint(folder, &options->damaged);
    }
  }
  if (absl::IsNotFound(latest.status())) {
    return absl::NotFoundError(
        absl::StrCat("--resume: expected a checkpoint or the folder of a run, got \"", path, "\""));
  }
  if (!latest.ok()) return AddContext(latest.status(), "--resume: no checkpoint is whole");
  options->resume = *latest;
  for (const DamagedCheckpoint& damaged : options->damaged) {
    SLUICE_LOG(WARNING) << damaged.path << " is not whole: " << damaged.status.message()
                        << "; --resume takes " << *latest;
  }
  return absl::OkStatus();
}

// The checkpoint that --resume names, with its options in the flags that were not given; and the
// folder of its run, if the checkpoint is that run's last that is whole.
absl::Status Resume(const std::vector<FlagGroup>& groups, const std::string& path,
                    ParsedFlags* parsed, TrainOptions* options) {
  if (parsed->given.count("preset") > 0) {
    return absl::InvalidArgumentError("--preset: a run that is resumed keeps its sizes");
  }
  std::error_code error;
  options->resume = path;
  if (!fs::exists(path + "/manifest.json", error)) RETURN_IF_ERROR(FindCheckpoint(path, options));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Load(options->resume));
  RETURN_IF_ERROR(RestoreFlags(groups, checkpoint.meta().options, parsed));
  const fs::path folder = fs::path(options->resume).lexically_normal().parent_path();
  const absl::StatusOr<std::string> latest = LatestCheckpoint(folder.string());
  const bool last =
      !options->damaged.empty() || (latest.ok() && fs::equivalent(*latest, options->resume, error));
  if (folder.filename() == "checkpoints" && last) {
    options->out = folder.has_parent_path() ? folder.parent_path().string() : ".";
  }
  return absl::OkStatus();
}

// Two runs in one folder would spoil each other's log and checkpoints.
absl::Status CheckFolder(const std::string& out, bool own) {
  std::error_code error;
  if (own || !fs::exists(out + "/log.jsonl", error)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("--out: ", out, " already holds a run; --resume=", out, " goes on with it"));
}

absl::Status ReadMesh(TrainOptions* options) {
  options->session.mesh = absl::GetFlag(FLAGS_mesh);
  absl::StatusOr<Mesh> mesh = Mesh::Parse(options->session.mesh);
  if (!mesh.ok()) return AddContext(mesh.status(), "--mesh");
  options->stages = mesh->num_stages();
  options->devices = mesh->num_devices();
  const int64_t batch = options->config.batch, micro = absl::GetFlag(FLAGS_micro_batches);
  if (batch % micro != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--micro_batches: expected a divisor of the batch, ", batch, ", got ", micro));
  }
  options->session.micro_batches = micro;
  return absl::OkStatus();
}

absl::Status ReadMachineFlag(TrainOptions* options) {
  const std::string path = absl::GetFlag(FLAGS_machine);
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<Machine> machine = ReadMachine(path);
  if (!machine.ok()) return AddContext(machine.status(), "--machine");
  options->session.machine = *std::move(machine);
  return absl::OkStatus();
}

void ReadFlags(TrainOptions* o) {
  o->preset = absl::GetFlag(FLAGS_preset);
  o->data = absl::GetFlag(FLAGS_data);
  o->config.layers = absl::GetFlag(FLAGS_layers);
  o->config.hidden = absl::GetFlag(FLAGS_hidden);
  o->config.heads = absl::GetFlag(FLAGS_heads);
  o->config.sequence_length = absl::GetFlag(FLAGS_sequence_length);
  o->config.dropout = absl::GetFlag(FLAGS_dropout);
  o->config.batch = absl::GetFlag(FLAGS_batch);
  o->schedule = {absl::GetFlag(FLAGS_lr), absl::GetFlag(FLAGS_warmup), absl::GetFlag(FLAGS_steps),
                 absl::GetFlag(FLAGS_lr_floor)};
  o->optimizer.clip = absl::GetFlag(FLAGS_clip);
  o->optimizer.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  o->session.seed = absl::GetFlag(FLAGS_seed);
  o->session.script_length = absl::GetFlag(FLAGS_script_length);
  o->session.trace = absl::GetFlag(FLAGS_trace);
  o->session.explain_html = absl::GetFlag(FLAGS_explain_html);
  o->session.check_nan = absl::GetFlag(FLAGS_check_nan);
  o->eval_every = absl::GetFlag(FLAGS_eval_every);
  o->save_every = absl::GetFlag(FLAGS_save_every);
  o->keep = absl::GetFlag(FLAGS_keep);
  o->sample = absl::GetFlag(FLAGS_sample);
  o->explain = absl::GetFlag(FLAGS_explain);
  o->prompt = absl::GetFlag(FLAGS_prompt);
  o->sample_length = absl::GetFlag(FLAGS_sample_length);
  o->temperature = absl::GetFlag(FLAGS_temperature);
}

}  // namespace

const std::vector<GptPreset>& GptPresets() {
  static const auto* presets = new std::vector<GptPreset>{
      {.name = "default",
       .what = "learns this repository in about two minutes on two cores",
       .config = {.sequence_length = 128, .layers = 6, .heads = 6, .hidden = 192, .batch = 16},
       .steps = 1000,
       .warmup = 50,
       .lr = 2e-3},
      {.name = "tiny",
       .what = "the model of the tests: seconds",
       .config = {.sequence_length = 64, .layers = 4, .heads = 4, .hidden = 128, .batch = 8},
       .steps = 200,
       .warmup = 20,
       .lr = 1e-3},
      {.name = "gpt_small",
       .what = "GPT-2's smallest, over bytes: hours",
       .config = {.sequence_length = 1024, .layers = 12, .heads = 12, .hidden = 768, .batch = 32},
       .steps = 20000,
       .warmup = 1000,
       .lr = 6e-4}};
  return *presets;
}

absl::StatusOr<Machine> ReadMachine(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 24;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMostBytes));
  absl::StatusOr<Machine> machine = Machine::Parse(text);
  if (!machine.ok()) return AddContext(machine.status(), path);
  return machine;
}

std::string TrainHelp() {
  std::string text =
      "Trains a GPT on the bytes of text, on devices that this machine's cores play.\n"
      "Without flags it learns this repository's own sources and then writes some.\n\n"
      "  bazel run //models/gpt:train -- --data=book.txt --steps=500\n"
      "  bazel run //models/gpt:train -- --mesh=\"data=2 model=2 pipe=2\" --micro_batches=2\n"
      "  bazel run //models/gpt:train -- --resume=runs/20260101-120000 --sample --prompt=\"int "
      "\"\n\n"
      "Ctrl-C saves and stops; --resume goes on. In [brackets]: what holds if a flag is not "
      "given.\n"
      "\nPresets\n";
  for (const GptPreset& preset : GptPresets()) {
    absl::StrAppend(&text, "  ", preset.name, std::string(24 - preset.name.size(), ' '),
                    preset.what, "\n");
  }
  text.pop_back();
  return FlagsHelp(text, Groups());
}

absl::StatusOr<TrainOptions> ParseTrainOptions(const std::vector<std::string>& arguments,
                                               const std::string& now, bool* help) {
  const std::vector<FlagGroup> groups = Groups();
  TrainOptions options;
  ParsedFlags parsed;
  RETURN_IF_ERROR(ParseFlags(groups, arguments, &parsed));
  *help = parsed.help;
  if (parsed.help) return options;
  const std::string resume = absl::GetFlag(FLAGS_resume);
  if (!resume.empty()) RETURN_IF_ERROR(Resume(groups, resume, &parsed, &options));
  RETURN_IF_ERROR(ApplyPreset(parsed.given));
  RETURN_IF_ERROR(CheckNumbers());
  if (!absl::GetFlag(FLAGS_data).empty()) {
    absl::SetFlag(&FLAGS_data, fs::absolute(absl::GetFlag(FLAGS_data)).string());
  }
  const std::string run = options.out;  // the run that is resumed
  ReadFlags(&options);
  RETURN_IF_ERROR(ReadMesh(&options));
  RETURN_IF_ERROR(ReadMachineFlag(&options));
  absl::Status status = CheckGpt(options.config, options.stages);
  if (!status.ok()) return AddContext(status, "model");
  if (options.sample && resume.empty()) {
    return absl::InvalidArgumentError("--sample: expected --resume=RUN, the run to write with");
  }
  if (options.prompt.empty()) {
    return absl::InvalidArgumentError("--prompt: expected at least one byte, got none");
  }
  const std::string out = absl::GetFlag(FLAGS_out);
  options.out = !out.empty() ? out : !run.empty() ? run : "runs/" + now;
  std::error_code error;
  if (!options.sample && !options.explain) {
    const bool own = !run.empty() && fs::equivalent(options.out, run, error);
    RETURN_IF_ERROR(CheckFolder(options.out, own));
  }
  options.resolved = FlagValues(groups, NotRecorded());
  return options;
}

}  // namespace sluice
